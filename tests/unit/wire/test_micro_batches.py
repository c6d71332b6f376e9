from appliance.core.plans.micro_batches import WaferLimits
from appliance.wire.requests.micro_batches import wafer_limits
from protos.appliance.common_config_pb2 import DebugArgs


def test_nothing_set_leaves_the_micro_batch_to_the_compiler():
    assert wafer_limits(DebugArgs(), wafer_bytes=7) == WaferLimits(wafer_bytes=7)


def test_a_number_forces_the_micro_batch():
    debug_args = DebugArgs()
    # As the client writes micro_batch_size = 3.
    debug_args.ini.bools["ws_opt_disable_grad_accum"] = False
    debug_args.ini.ints["ws_opt_force_max_grad_accum_batch"] = 3
    debug_args.ini.ints["ws_opt_force_min_grad_accum_batch"] = 3
    want = WaferLimits(wafer_bytes=None, micro_batch_size=3)
    assert wafer_limits(debug_args, wafer_bytes=None) == want


def test_none_switches_splitting_off():
    debug_args = DebugArgs()
    debug_args.ini.bools["ws_opt_disable_grad_accum"] = True
    assert not wafer_limits(debug_args, wafer_bytes=None).may_split
