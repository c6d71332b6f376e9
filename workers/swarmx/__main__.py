"""Entry point of a broadcastreduce pod: `python -m workers.swarmx --spec FILE`."""

import sys
from collections.abc import Sequence

from appliance.core.pods.pod_spec import PodSpec
from appliance.pods import shell
from workers.swarmx.role import BroadcastReduceRole


def run_pod(spec: PodSpec) -> int:
    """Be the broadcastreduce pod that the spec describes; return the exit code."""
    return shell.run_pod(spec, BroadcastReduceRole)


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line; return the exit code."""
    return shell.pod_main(argv, run_pod, program="python -m workers.swarmx")


if __name__ == "__main__":
    sys.exit(main())
