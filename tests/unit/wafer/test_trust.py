from dataclasses import replace

import pytest

from appliance.core.plans.plan import Execution
from appliance.wafer.hardware import CS2, CS3, Machine
from appliance.wafer.planner.planner import estimate
from appliance.wafer.planner.transformer import Transformer
from appliance.wafer.planner.trust import WORST_ERRORS
from benchmarks.wafer_model.logs import BERT_LARGE_128, GPT_J_6B, LOGS


@pytest.mark.parametrize("machine", [CS2, CS3], ids=lambda machine: machine.name)
def test_the_interval_holds_the_worst_logs_of_a_wafer_at_its_ends(machine: Machine) -> None:
    found = estimate(GPT_J_6B, machine=machine, batch_size=60)
    least, greatest = WORST_ERRORS[machine.wafer]
    rate = found.step.samples_per_second
    assert found.trust.outside == ()
    assert rate / found.trust.low_samples_per_second - 1 == pytest.approx(greatest)
    assert rate / found.trust.high_samples_per_second - 1 == pytest.approx(least)


@pytest.mark.parametrize(
    ("model", "systems", "execution", "said"),
    [
        (GPT_J_6B, 3, Execution.WEIGHT_STREAMING, "3 systems"),
        (replace(GPT_J_6B, sequence=4096), 1, Execution.WEIGHT_STREAMING, "4096 tokens a sample"),
        (replace(GPT_J_6B, layers=56), 1, Execution.WEIGHT_STREAMING, "parameters"),
        (replace(GPT_J_6B, density=0.5), 1, Execution.WEIGHT_STREAMING, "sparse weights"),
        (BERT_LARGE_128, 1, Execution.PIPELINED, "pipelined"),
    ],
)
def test_what_was_never_measured_is_said_and_widens_the_interval(
    model: Transformer, systems: int, execution: Execution, said: str
) -> None:
    found = estimate(model, machine=CS2, num_systems=systems, batch_size=60, execution=execution)
    assert any(said in each for each in found.trust.outside)
    _, greatest = WORST_ERRORS["WSE-2"]
    ratio = found.step.samples_per_second / found.trust.low_samples_per_second
    assert ratio == pytest.approx((1 + greatest) ** 2)


def test_every_logged_run_is_inside_of_what_was_measured() -> None:
    for row in LOGS:
        found = estimate(
            row.model,
            machine=row.machine,
            num_systems=row.num_systems,
            batch_size=row.batch_size,
        )
        assert found.trust.outside == (), row.name
