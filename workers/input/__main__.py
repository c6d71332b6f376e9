"""`python -m workers.input --spec FILE`: an input pod.

Roles: `worker` (options: see `workers.input.options`) and `activation` (no options). A worker's
index is its rank in the whole job, system by system; an activation pod's is its system's.
"""

import sys

from appliance.core.errors import InternalError
from appliance.core.ids import Role
from appliance.core.pods.pod_spec import PodSpec
from appliance.pods import shell
from workers.input.activation import ActivationRole
from workers.input.role import WorkerRole


def run_pod(spec: PodSpec) -> int:
    """Be the pod until told to stop; return the process's exit code."""
    match spec.role:
        case Role.WORKER:
            return shell.run_pod(spec, WorkerRole)
        case Role.ACTIVATION:
            return shell.run_pod(spec, ActivationRole)
        case _:
            raise InternalError(f"workers.input cannot be a {spec.role.value} pod.")


def main() -> int:
    """Run from the command line."""
    return shell.pod_main(None, run_pod, program="python -m workers.input")


if __name__ == "__main__":
    sys.exit(main())
