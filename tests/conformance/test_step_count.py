"""Programs of the client whose state tells how many steps it has been trained for."""

import numpy as np
import pytest

from appliance.core.plans.plan import Precision
from appliance.core.plans.step_count import changes_state, steps_taken
from tests.conformance.test_numerics import num_steps
from tests.conformance.test_plans import load

COUNTING = ["train.lr_linear", "train.lr_chained", "train.radam", "train.adamw"]
CANCELLING = ["gpt_adamw", "dynamic_loss_scale", "train.dynamic_loss_scale_tolerance"]


def counts(name: str, precision: Precision) -> tuple[int | None, int | None, int]:
    """Return what a program's state says before and after its steps, and how many these were."""
    plan, golden = load(name, precision)
    before, after = (
        steps_taken(plan, lambda resource, kind=kind: golden[f"{kind}/{resource}"].reshape(-1)[0])
        for kind in ("initial", "final")
    )
    return before, after, num_steps(golden)


@pytest.mark.parametrize("precision", Precision)
@pytest.mark.parametrize("name", [*COUNTING, *CANCELLING])
def test_the_count_grows_by_one_with_every_step(name: str, precision: Precision) -> None:
    before, after, steps = counts(name, precision)
    assert before is not None
    assert after == before + steps


@pytest.mark.parametrize("name", ["mlp_sgd", "train.rmsprop", "mlp_eval"])
def test_a_program_that_counts_nothing_has_no_count(name: str) -> None:
    before, after, _ = counts(name, Precision.F32)
    assert before is None
    assert after is None


def test_a_long_run_is_counted_from_a_power_to_the_step() -> None:
    plan, golden = load("train.adamw")
    for steps in (1, 1_000, 50_000):
        powers = {}
        for key in golden:
            if key.startswith("initial/") and "power" in key:
                base = 0.999 if "beta2" in key else 0.9
                powers[key] = np.float32(1)
                for _ in range(steps):
                    powers[key] *= np.float32(base)
        found = steps_taken(plan, lambda resource, powers=powers: powers[f"initial/{resource}"])
        assert found == steps


def test_only_training_changes_state() -> None:
    assert changes_state(load("mlp_sgd")[0])
    assert not changes_state(load("mlp_eval")[0])
