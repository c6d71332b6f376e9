"""What the software on the wafer costs: few numbers, and which measurements gave them.

The structure of the model is physics (`kernels`); three numbers are not published and are fitted to
throughput logs: how long a multiply-add takes to be dispatched when its weight arrives, what the
change from one layer step to the next costs, and how many samples per second an input worker
prepares one by one. `logs` holds the rows and `fitting` the procedure; the values here are its
result over all rows, and `BY_FOLD` its results over each half alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Fold(StrEnum):
    """Rows of `logs.FITTED_LOGS`, counted from 1, that a set was fitted on."""

    ALL = "all"
    ODD = "odd"
    EVEN = "even"


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Costs of the wafer's software.

    Attributes:
        dispatch_cycles: Clock cycles to start one vector instruction when a weight arrives. Public
            simulator measurements bound it by a set-up instruction alone, 6, and by a task that a
            wavelet wakes, 32, with the instruction's set-up, 34.
        layer_step_seconds: Exposed time between two layer steps: kernels change, buffers drain,
            the command goes to all PEs.
        samples_prepared_per_second: Samples one input worker of the CS-2 cluster prepares per
            second where it prepares each by itself (`StepProgram.is_prepared_singly`).
        fitted_on: Names of the log rows it was fitted on.
    """

    dispatch_cycles: float
    layer_step_seconds: float
    samples_prepared_per_second: float
    fitted_on: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("dispatch_cycles", "layer_step_seconds"):
            if getattr(self, name) < 0:
                raise ValueError(f"calibration {name} is {getattr(self, name)}, below 0")
        if self.samples_prepared_per_second <= 0:
            raise ValueError(
                f"calibration samples_prepared_per_second is {self.samples_prepared_per_second}"
            )


_ODD_ROWS = (
    "GPT-J 6B 2xCS-2 R2.0.3 batch 120",
    "BERT-large MSL128 1xCS-2 2024-04 batch 512",
    "GPT-J 6B 1xCS-3 2025-10 batch 120",
    "DiT-2B 1xCS-3 2025-10 batch 1168",
)
_EVEN_ROWS = (
    "BERT-large MSL128 1xCS-2 R2.0.3 batch 1024",
    "ESM-2 35M 1xCS-2 R2.3.0 batch 2048",
    "ESM-2 35M 1xCS-3 2025-10 batch 2048",
    "ViT-B/16 1xCS-3 2025-10 batch 2850",
)

BY_FOLD: Mapping[Fold, Calibration] = {
    Fold.ALL: Calibration(
        dispatch_cycles=45.81,
        layer_step_seconds=108.5e-6,
        samples_prepared_per_second=584.6,
        fitted_on=_ODD_ROWS + _EVEN_ROWS,
    ),
    Fold.ODD: Calibration(
        dispatch_cycles=45.28,
        layer_step_seconds=94.5e-6,
        samples_prepared_per_second=584.5,
        fitted_on=_ODD_ROWS,
    ),
    Fold.EVEN: Calibration(
        dispatch_cycles=47.66,
        layer_step_seconds=114.6e-6,
        samples_prepared_per_second=584.8,
        fitted_on=_EVEN_ROWS,
    ),
}
"""Results of `fitting.fit`; a test fits again and compares."""

DEFAULT_CALIBRATION = BY_FOLD[Fold.ALL]
