"""How long a program will run that has not run: by the other programs of its user, and of all.

Run times of programs spread over orders of magnitude, so their logarithms are averaged, and each
program counts once: a sweep of fifty runs says no more of the next program than one of them. The
mean of all users' programs counts as six programs of the user's own, so that whoever has run one
is not believed to run nothing else, and whoever has run many is.
"""

import math
from dataclasses import dataclass, field

from appliance.core.cluster.jobs import JobType

_OWN_KEPT, _ALL_KEPT = 16, 64
_COMMON_WEIGHT = 6.0
_NOTICED = math.log(1.1)
"""The common mean is published anew when it has changed by a tenth: whoever waits follows it."""


@dataclass(slots=True)
class _Programs:
    """The latest run of each of the newest programs, as logarithms of seconds, by name."""

    most: int
    logs: dict[tuple[str, str], float] = field(default_factory=dict)
    total: float = 0.0

    def note(self, name: tuple[str, str], log_seconds: float) -> None:
        """Take in a run of a program, which is the newest then."""
        self.total += log_seconds - self.logs.pop(name, 0.0)
        self.logs[name] = log_seconds
        if len(self.logs) > self.most:
            self.total -= self.logs.pop(next(iter(self.logs)))


class NewPrograms:
    """What past runs tell of programs that have not run.

    Attributes:
        version: Changes when what is expected of every user's new programs has changed.
    """

    def __init__(self) -> None:
        self.version = 0
        self._own: dict[tuple[str, JobType], _Programs] = {}
        self._all: dict[JobType, _Programs] = {}
        self._common: dict[JobType, float] = {}

    def observe(self, user: str, program: str, job_type: JobType, seconds: float) -> None:
        """Take in a run that has succeeded; what has no program counts as one program of its user.

        Args:
            seconds: Its run time; 1 or more.
        """
        name, log_seconds = (user, program), math.log(seconds)
        self._own.setdefault((user, job_type), _Programs(_OWN_KEPT)).note(name, log_seconds)
        everybody = self._all.setdefault(job_type, _Programs(_ALL_KEPT))
        everybody.note(name, log_seconds)
        mean = everybody.total / len(everybody.logs)
        if abs(mean - self._common.get(job_type, math.inf)) > _NOTICED:
            self._common[job_type] = mean
            self.version += 1

    def expected_seconds(self, user: str, job_type: JobType) -> float | None:
        """Return how long a user's next new program will run; None if nobody has run any."""
        common = self._common.get(job_type)
        if common is None:
            return None
        own = self._own.get((user, job_type), _Programs(_OWN_KEPT))
        weight = _COMMON_WEIGHT + len(own.logs)
        return math.exp((own.total + _COMMON_WEIGHT * common) / weight)
