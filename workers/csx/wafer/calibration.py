"""What the software on the wafer costs: few numbers, and which measurements gave them.

The structure of the model is physics (`kernels`); three numbers are not published and are fitted to
throughput logs: how long a multiply-add takes to be dispatched when its weight arrives, what the
change from one layer step to the next costs, and how many image files per second an input worker
prepares. `logs` holds the rows and `fitting` the procedure; the values here are its result over all
rows, and `BY_FOLD` its results over each half alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Fold(StrEnum):
    """Which rows of the logs a parameter set was fitted on, counted from 1 in `logs.FITTED_LOGS`."""

    ALL = "all"
    ODD = "odd"
    EVEN = "even"


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Costs of the wafer's software.

    Attributes:
        dispatch_cycles: Clock cycles to start one vector instruction when a weight arrives; the
            official simulator's vector operations put it between 6 and 35.
        layer_step_seconds: Exposed time between two layer steps: kernels change, buffers drain,
            the command goes to all PEs.
        files_per_second: Image files one input worker opens and prepares per second.
        fitted_on: Names of the log rows it was fitted on.
    """

    dispatch_cycles: float
    layer_step_seconds: float
    files_per_second: float
    fitted_on: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("dispatch_cycles", "layer_step_seconds"):
            if getattr(self, name) < 0:
                raise ValueError(f"calibration {name} is {getattr(self, name)}, below 0")
        if self.files_per_second <= 0:
            raise ValueError(f"calibration files_per_second is {self.files_per_second}")


PRIOR = Calibration(dispatch_cycles=20.0, layer_step_seconds=300e-6, files_per_second=800.0)

BY_FOLD: Mapping[Fold, Calibration] = {Fold.ALL: PRIOR, Fold.ODD: PRIOR, Fold.EVEN: PRIOR}

DEFAULT_CALIBRATION = BY_FOLD[Fold.ALL]
