"""Entry point of the chief pod, a simulated CS-2: `python -m workers.csx --spec FILE`.

Options of the spec: `torch_threads`, how many threads compute (default: the machine's cores divided
by the number of systems); `device`, `cpu` (default) or `cuda`, what
the systems of a node compute on, dealt out to its devices; `machine`, name or JSON table of the
machine whose times are simulated (default: CS-2); `pace`, wall seconds per simulated second
(default: as fast as it goes); `machine_code`, a directory of machine code that pods before this one
have compiled (default: none is kept).
"""

import sys
from collections.abc import Sequence

from appliance.core.pods.pod_options import ChiefPodOptions
from appliance.core.pods.pod_spec import PodSpec
from appliance.numerics.loops.machine_code import keep_machine_code
from appliance.pods import shell
from appliance.pods.allocator import keep_freed_memory, use_one_arena
from workers.csx.role import CsxRole


def run_pod(spec: PodSpec) -> int:
    """Be the chief pod that the spec describes; return the exit code."""
    use_one_arena()
    keep_freed_memory()
    keep_machine_code(spec.options_of(ChiefPodOptions).machine_code)
    return shell.run_pod(spec, CsxRole)


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line; return the exit code."""
    return shell.pod_main(argv, run_pod, program="python -m workers.csx")


if __name__ == "__main__":
    sys.exit(main())
