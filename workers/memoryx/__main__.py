"""Entry point of the weight pod: `python -m workers.memoryx --spec FILE`.

Options of the spec: `threads`, how many threads an update may use (default: half the cores);
`memory_bytes`, the memory that tensors and all else may take, beyond which tensors go to a file
(default: what the machine or the control group has); `machine_code`, a directory of machine code
that pods before this one have compiled (default: none is kept).
"""

import sys
from collections.abc import Sequence

from appliance.core.pods.pod_options import WeightPodOptions
from appliance.core.pods.pod_spec import PodSpec
from appliance.numerics.loops.machine_code import keep_machine_code
from appliance.pods import shell
from workers.memoryx.role import WeightRole


def run_pod(spec: PodSpec) -> int:
    """Be the weight pod that the spec describes; return the exit code."""
    keep_machine_code(spec.options_of(WeightPodOptions).machine_code)
    return shell.run_pod(spec, WeightRole)


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line; return the exit code."""
    return shell.pod_main(argv, run_pod, program="python -m workers.memoryx")


if __name__ == "__main__":
    sys.exit(main())
