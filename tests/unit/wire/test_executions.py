import pytest

from appliance.core.errors import UserError
from appliance.core.plans.plan import Execution
from appliance.wire.requests.executions import LABEL_KEY, chosen_execution, parse_execution
from appliance.wire.requests.micro_batches import wafer_limits
from appliance.wire.requests.submissions import check_labels
from protos.appliance.common_config_pb2 import DebugArgs


def test_a_word_names_an_execution_or_leaves_it_to_the_compiler():
    assert parse_execution("pipelined") is Execution.PIPELINED
    assert parse_execution("weight-streaming") is Execution.WEIGHT_STREAMING
    assert parse_execution("auto") is None


def test_a_jobs_label_goes_before_the_appliances_choice():
    default = Execution.WEIGHT_STREAMING
    assert chosen_execution({}, default) is default
    assert chosen_execution({LABEL_KEY: "auto"}, default) is None
    debug_args = DebugArgs()
    assert wafer_limits(debug_args, wafer_bytes=1, execution=None).execution is None
    debug_args.debug_mgr.labels[LABEL_KEY] = "pipelined"
    assert wafer_limits(debug_args, wafer_bytes=1).execution is Execution.PIPELINED


def test_a_job_whose_label_means_nothing_is_refused():
    with pytest.raises(UserError, match=r"There is no execution 'fast'\. Choose auto, or one of"):
        check_labels({LABEL_KEY: "fast"})
