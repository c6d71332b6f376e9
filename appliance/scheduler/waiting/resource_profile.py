"""What is free when: steps of a row of numbers over time, on which waiting jobs are planned.

Numbers only, no names: good for saying when a job will start, not for starting it.

Source: Mu'alem and Feitelson, 2001 (conservative backfilling keeps such a profile).
"""

from bisect import bisect_left, bisect_right

import numpy as np
from numpy.typing import NDArray


class Profile:
    """Free amounts over time.

    Args:
        free: What is free now, one number per column of demand.
    """

    def __init__(self, free: NDArray[np.int64], now_seconds: float) -> None:
        self._times = [now_seconds]
        self._free = [free.copy()]
        self._causes = [""]

    def give(self, at_seconds: float, amounts: NDArray[np.int64], cause: str) -> None:
        """Add amounts from a time on.

        Args:
            amounts: What becomes free.
            cause: The job that gives it back.
        """
        for step in range(self._step_at(at_seconds, cause), len(self._times)):
            self._free[step] = self._free[step] + amounts

    def reserve(
        self, job: str, demand: NDArray[np.int64], seconds: float
    ) -> tuple[float, str] | None:
        """Find the earliest time at which a job fits, and take what it needs.

        Args:
            demand: What it needs.
            seconds: For how long.

        Returns:
            The time, and the job whose end makes room; None if it never fits.
        """
        fits = (np.array(self._free) >= demand).all(axis=1) | (demand == 0).all()
        for step in np.flatnonzero(fits).tolist():
            end = self._times[step] + seconds
            last = bisect_left(self._times, end)
            if fits[step:last].all():
                cause = self._causes[step]
                self._take(step, end, demand, job)
                return self._times[step], cause
        return None

    def _take(self, step: int, end_seconds: float, demand: NDArray[np.int64], job: str) -> None:
        last = self._step_at(end_seconds, job)
        for number in range(step, last):
            self._free[number] = self._free[number] - demand

    def _step_at(self, at_seconds: float, cause: str) -> int:
        """Return the step that begins at a time, and begin one if there is none."""
        at_seconds = max(at_seconds, self._times[0])
        step = bisect_right(self._times, at_seconds) - 1
        if self._times[step] != at_seconds:
            step += 1
            self._times.insert(step, at_seconds)
            self._free.insert(step, self._free[step - 1].copy())
            self._causes.insert(step, cause)
        return step
