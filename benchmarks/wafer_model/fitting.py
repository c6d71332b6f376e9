"""How the calibration follows from the logs: a small, regularised least-squares fit.

Minimises the sum of squared logarithmic errors of throughput, in units of the 5 % by which repeated
logs of one model differ, plus a weak prior on each of the three numbers, so that half of the rows
cannot drive a number that they hardly depend on. The priors come from elsewhere: dispatch between 6
cycles (a vector instruction that is set up) and 66 (a task woken by a wavelet, 32, and the set-up,
34; geometric mean 20), a kernel change of the order of 0.1 ms, and eight loader processes that each
prepare 100 image files per second.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from appliance.wafer.planner.transformer_program import transformer_program
from appliance.wafer.timing.calibration import Calibration, Fold
from appliance.wafer.timing.layer_timing import step_timing
from benchmarks.wafer_model.logs import FITTED_LOGS, ThroughputLog

_ROW_DEVIATION = 0.05
_PRIOR = np.log(np.array([20.0, 100e-6, 800.0]))
_PRIOR_DEVIATION = np.array([0.6, 1.0, 1.0])
_STEP = 1e-3
_NUM_ROUNDS = 6


def rows_of(fold: Fold) -> tuple[ThroughputLog, ...]:
    """Return the rows that a fold is fitted on."""
    match fold:
        case Fold.ALL:
            return FITTED_LOGS
        case Fold.ODD:
            return FITTED_LOGS[0::2]
        case Fold.EVEN:
            return FITTED_LOGS[1::2]


def fit(rows: Sequence[ThroughputLog]) -> Calibration:
    """Return the calibration that explains some rows best.

    Gauss-Newton on the logarithms of the three numbers, with numerical derivatives; the problem is
    smooth but for the choice between compute-bound and input-bound, which does not change in it.
    """
    logs = _PRIOR.copy()
    for _ in range(_NUM_ROUNDS):
        residuals = _residuals(logs, rows)
        jacobian = np.stack(
            [(_residuals(logs + _STEP * axis, rows) - residuals) / _STEP for axis in np.eye(3)],
            axis=1,
        )
        change, *_ = np.linalg.lstsq(jacobian, -residuals, rcond=None)
        logs = logs + np.clip(change, -1.0, 1.0)
    return _calibration(logs, rows)


def relative_error(row: ThroughputLog, calibration: Calibration) -> float:
    """Return simulated over logged samples per second, less 1."""
    timing = step_timing(
        transformer_program(row.model),
        machine=row.machine,
        batch_size=row.batch_size,
        num_systems=row.num_systems,
        calibration=calibration,
    )
    return timing.samples_per_second / row.samples_per_second - 1.0


def _calibration(logs: NDArray[np.float64], rows: Sequence[ThroughputLog]) -> Calibration:
    dispatch, layer_step, files = np.exp(logs).tolist()
    return Calibration(
        dispatch_cycles=dispatch,
        layer_step_seconds=layer_step,
        samples_prepared_per_second=files,
        fitted_on=tuple(row.name for row in rows),
    )


def _residuals(logs: NDArray[np.float64], rows: Sequence[ThroughputLog]) -> NDArray[np.float64]:
    calibration = _calibration(logs, rows)
    errors = [np.log1p(relative_error(row, calibration)) / _ROW_DEVIATION for row in rows]
    return np.concatenate([np.array(errors), (logs - _PRIOR) / _PRIOR_DEVIATION])
