"""When the reconciler has to look at which job again, and why."""

import heapq
import itertools
from enum import StrEnum

from appliance.core.ids import JobId


class Alarm(StrEnum):
    """Why a job is to be looked at again."""

    GRACE = "grace"
    LIMIT = "limit"


_ALARMS = tuple(Alarm)


class Reminders:
    """When which job is to be looked at again; one alarm of each kind for a job."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, JobId, Alarm]] = []
        self._due: dict[tuple[JobId, Alarm], int] = {}
        self._numbers = itertools.count()

    def set(self, job: JobId, alarm: Alarm, at_seconds: float) -> None:
        """Look at a job at a time, in place of the time set before."""
        number = next(self._numbers)
        self._due[job, alarm] = number
        heapq.heappush(self._heap, (at_seconds, number, job, alarm))

    def clear(self, job: JobId, *alarms: Alarm) -> None:
        """Forget a job's alarms of some kinds; of all kinds if none is named."""
        for alarm in alarms or _ALARMS:
            self._due.pop((job, alarm), None)

    def next_seconds(self) -> float | None:
        """Return when the next alarm is due; None if there is none."""
        while self._heap and self._due.get(self._heap[0][2:]) != self._heap[0][1]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def take_due(self, now_seconds: float) -> list[tuple[JobId, Alarm]]:
        """Return and forget the alarms that are due, in order."""
        due = []
        while (at := self.next_seconds()) is not None and at <= now_seconds:
            _, _, job, alarm = heapq.heappop(self._heap)
            del self._due[job, alarm]
            due.append((job, alarm))
        return due
