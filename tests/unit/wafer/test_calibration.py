from pathlib import Path

import pytest

from appliance.wafer.hardware import CS2
from appliance.wafer.timing.calibration import BY_FOLD, Calibration, Fold
from benchmarks.wafer_model.fitting import fit, relative_error, rows_of
from benchmarks.wafer_model.logs import EARLIER_LOGS, FITTED_LOGS, LATER_LOGS

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("fold", list(Fold))
def test_the_stored_numbers_are_what_the_fit_gives(fold: Fold) -> None:
    stored, fitted = BY_FOLD[fold], fit(rows_of(fold))
    assert stored.dispatch_cycles == pytest.approx(fitted.dispatch_cycles, rel=0.01)
    assert stored.layer_step_seconds == pytest.approx(fitted.layer_step_seconds, rel=0.01)
    assert stored.samples_prepared_per_second == pytest.approx(
        fitted.samples_prepared_per_second, rel=0.01
    )
    assert sorted(stored.fitted_on) == sorted(fitted.fitted_on)


def test_the_halves_are_every_other_row() -> None:
    assert rows_of(Fold.ODD) == FITTED_LOGS[0::2]
    assert rows_of(Fold.EVEN) == FITTED_LOGS[1::2]


def test_each_half_predicts_the_other() -> None:
    errors = [
        abs(relative_error(row, BY_FOLD[fold]))
        for fold, other in ((Fold.ODD, Fold.EVEN), (Fold.EVEN, Fold.ODD))
        for row in rows_of(other)
    ]
    assert sum(errors) / len(errors) <= 0.10
    assert max(errors) <= 0.20


def test_dispatch_stays_within_what_public_simulator_runs_show() -> None:
    """From a vector instruction that is set up to a task woken by a wavelet that sets it up."""
    woken_task_cycles = 32
    for calibration in BY_FOLD.values():
        most = woken_task_cycles + CS2.vector_setup_cycles
        assert CS2.vector_start_cycles <= calibration.dispatch_cycles <= most


def test_both_halves_of_the_logs_give_nearly_the_same_numbers() -> None:
    odd, even = BY_FOLD[Fold.ODD], BY_FOLD[Fold.EVEN]
    assert odd.dispatch_cycles == pytest.approx(even.dispatch_cycles, rel=0.1)
    assert odd.layer_step_seconds == pytest.approx(even.layer_step_seconds, rel=0.25)
    assert odd.samples_prepared_per_second == pytest.approx(
        even.samples_prepared_per_second, rel=0.1
    )


def test_older_releases_were_slower_than_the_model_of_the_mature_one() -> None:
    errors = [relative_error(row, BY_FOLD[Fold.ALL]) for row in EARLIER_LOGS]
    assert errors[0] > errors[1] > 0


def test_the_page_tells_the_error_of_every_log_that_was_never_fitted() -> None:
    text = (ROOT / "docs" / "wafer-timing.md").read_text()
    told = text[text.index("## How far") : text.index("| median, worst")]
    for row in LATER_LOGS:
        assert row not in FITTED_LOGS
        assert f"{100 * relative_error(row, BY_FOLD[Fold.ALL]):+.1f} %" in told, row.name


@pytest.mark.parametrize(
    "numbers",
    [(-1.0, 0.0, 1.0), (1.0, -1.0, 1.0), (1.0, 1.0, 0.0)],
)
def test_impossible_costs_are_refused(numbers: tuple[float, float, float]) -> None:
    dispatch, step, files = numbers
    with pytest.raises(ValueError, match="calibration"):
        Calibration(
            dispatch_cycles=dispatch, layer_step_seconds=step, samples_prepared_per_second=files
        )
