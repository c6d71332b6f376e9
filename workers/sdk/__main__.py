"""`python -m workers.sdk --spec FILE`: the pod of an SDK job (options: `workers.sdk.options`)."""

import sys

from appliance.core.pods.pod_spec import PodSpec
from appliance.pods import shell
from workers.sdk.process import run_sdk


def run_pod(spec: PodSpec) -> int:
    """Be the pod until told to stop; return the process's exit code."""
    return run_sdk(spec)


def main() -> int:
    """Run from the command line."""
    return shell.pod_main(None, run_pod, program="python -m workers.sdk")


if __name__ == "__main__":
    sys.exit(main())
