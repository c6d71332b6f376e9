"""How the calibration follows from the logs: a small, regularised least-squares fit.

Minimises errors of throughput on a logarithmic scale, in units of 8 %, plus a weak prior on each of
the five numbers, so that few rows cannot drive a number that they hardly depend on. Beyond 10 % an
error counts linearly, not by its square (Huber 1964): logs of one model and batch, of releases a
few months apart, differ by 20 %.

The priors come from elsewhere: dispatch between 6 cycles (a vector instruction that is set up) and
66 (a task woken by a wavelet, 32, and the set-up, 34; geometric mean 20), two multiply-adds a cycle
where operands meet in the same memory banks (half of the WSE-2's four), a kernel change of 0.3 ms,
and eight loader processes that each prepare 100 image files per second.
"""

import functools
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from appliance.wafer.planner.transformer import Transformer
from appliance.wafer.planner.transformer_program import transformer_program
from appliance.wafer.timing.calibration import Calibration
from appliance.wafer.timing.layer_timing import step_timing
from appliance.wafer.timing.step_program import StepProgram
from benchmarks.wafer_model.logs import LOGS, ThroughputLog

_ROW_DEVIATION = 0.08
_LINEAR_BEYOND = 0.1
_PRIOR = np.log(np.array([20.0, 20.0, 2.0, 300e-6, 800.0]))
_PRIOR_DEVIATION = np.array([0.8, 0.8, 0.5, 1.2, 1.0])
_STEP = 1e-3
_NUM_ROUNDS = 12
_LARGEST_CHANGE = 0.7


def fit(rows: Sequence[ThroughputLog]) -> Calibration:
    """Return the calibration that explains some rows best.

    Gauss-Newton on the logarithms of the five numbers, with numerical derivatives and the weights
    of Huber's loss renewed in each round.
    """
    logs = _PRIOR.copy()
    for _ in range(_NUM_ROUNDS):
        weights = _weights(logs, rows)
        residuals = _residuals(logs, rows, weights)
        jacobian = np.stack(
            [
                (_residuals(logs + _STEP * axis, rows, weights) - residuals) / _STEP
                for axis in np.eye(len(_PRIOR))
            ],
            axis=1,
        )
        change, *_ = np.linalg.lstsq(jacobian, -residuals, rcond=None)
        logs = logs + np.clip(change, -_LARGEST_CHANGE, _LARGEST_CHANGE)
    return _calibration(logs)


@functools.cache
def left_out_errors() -> Mapping[str, float]:
    """Return, by name of the log, its relative error with all logs of its model left out."""
    families = dict.fromkeys(row.family for row in LOGS)
    fitted = {name: fit([row for row in LOGS if row.family != name]) for name in families}
    return {row.name: relative_error(row, fitted[row.family]) for row in LOGS}


def relative_error(row: ThroughputLog, calibration: Calibration) -> float:
    """Return simulated over logged samples per second, less 1."""
    timing = step_timing(
        _program(row.model),
        machine=row.machine,
        batch_size=row.batch_size,
        num_systems=row.num_systems,
        calibration=calibration,
    )
    return timing.samples_per_second / row.samples_per_second - 1.0


@functools.cache
def _program(model: Transformer) -> StepProgram:
    return transformer_program(model)


def _calibration(logs: NDArray[np.float64]) -> Calibration:
    first, second, rate, layer_step, files = np.exp(logs).tolist()
    return Calibration(
        dispatch_cycles={"WSE-2": first, "WSE-3": second},
        multiply_adds_per_cycle=rate,
        layer_step_seconds=layer_step,
        samples_prepared_per_second=files,
    )


def _errors(logs: NDArray[np.float64], rows: Sequence[ThroughputLog]) -> NDArray[np.float64]:
    calibration = _calibration(logs)
    return np.array([np.log1p(relative_error(row, calibration)) for row in rows])


def _weights(logs: NDArray[np.float64], rows: Sequence[ThroughputLog]) -> NDArray[np.float64]:
    errors = np.maximum(np.abs(_errors(logs, rows)), _LINEAR_BEYOND)
    return np.asarray(np.sqrt(_LINEAR_BEYOND / errors))


def _residuals(
    logs: NDArray[np.float64], rows: Sequence[ThroughputLog], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    errors = _errors(logs, rows) * weights / _ROW_DEVIATION
    return np.concatenate([errors, (logs - _PRIOR) / _PRIOR_DEVIATION])
