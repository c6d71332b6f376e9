"""The client's `micro_batch_size` setting, which travels as options of the debug arguments.

A number forces it, None switches splitting off, "auto" (the default) sets nothing. "explore", a
search over hours on a real cluster, is taken for "auto".
"""

from appliance.core.plans.micro_batches import WaferLimits
from appliance.core.plans.plan import Execution
from appliance.wire.requests.executions import chosen_execution
from protos.appliance.common_config_pb2 import DebugArgs

_SIZE = "ws_opt_force_max_grad_accum_batch"
_IS_OFF = "ws_opt_disable_grad_accum"


def wafer_limits(
    debug_args: DebugArgs,
    *,
    wafer_bytes: int | None,
    execution: Execution | None = Execution.WEIGHT_STREAMING,
) -> WaferLimits:
    """Return what a job's programs may use of each wafer.

    Args:
        debug_args: As in the client's job request.
        wafer_bytes: Memory for activations; None for no limit.
        execution: What holds for jobs that do not say how the wafer is to be used.

    Raises:
        UserError: The job's label for that says nothing that exists.
    """
    options = debug_args.ini
    return WaferLimits(
        wafer_bytes=wafer_bytes,
        micro_batch_size=max(0, options.ints.get(_SIZE, 0)) or None,
        may_split=not options.bools.get(_IS_OFF, False),
        execution=chosen_execution(debug_args.debug_mgr.labels, execution),
    )
