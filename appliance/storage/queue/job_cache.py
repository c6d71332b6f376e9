"""The unfinished jobs, and those that ended last, in memory.

Management is the only writer, so it need not read its own writes again. Records are added and
changed here only after the commit, so nobody sees what a crash could undo.
"""

import threading
from collections import OrderedDict, defaultdict
from collections.abc import Mapping, Sequence, Set
from typing import Any

from appliance.core.cluster.jobs import JobType
from appliance.core.cluster.records import JobRecord
from appliance.core.ids import JobId

_NUM_ENDED = 4096
"""Ended jobs remembered: a client asks about its job for some seconds after its end."""


class PublishedJobs:
    """Records by id, as they are committed; any thread may read them.

    Args:
        num_ended: So many of the jobs that ended last are remembered.

    Attributes:
        is_complete: Whether every job that has not ended is here.
    """

    def __init__(self, num_ended: int = _NUM_ENDED) -> None:
        self._lock = threading.Lock()
        self._live: dict[JobId, JobRecord] = {}
        self._ended: OrderedDict[JobId, JobRecord] = OrderedDict()
        self._num_ended = num_ended
        self._drivers: defaultdict[int, set[JobId]] = defaultdict(set)
        self._in_directory: defaultdict[str, set[JobId]] = defaultdict(set)
        self.is_complete = False

    def find(self, job: JobId) -> JobRecord | None:
        """Return a job as committed; None if it is not in memory."""
        return self._live.get(job) or self._ended.get(job)

    def in_order(self) -> Sequence[JobRecord]:
        """Return the jobs that have not ended, in order of submission."""
        with self._lock:
            return sorted(self._live.values(), key=lambda record: record.sequence)

    def drivers_of(self, uid: int) -> Set[JobId]:
        """Return a user's drivers that have not ended."""
        with self._lock:
            return frozenset(self._drivers.get(uid, ()))

    def in_directory(self, artifact_dir: str) -> Sequence[JobRecord]:
        """Return the jobs in memory whose clients lower programs below a directory, oldest first.

        Args:
            artifact_dir: As in `JobRecord.artifact_dir_of_client`.
        """
        with self._lock:
            found = map(self.find, self._in_directory.get(artifact_dir, ()))
            return sorted(filter(None, found), key=lambda record: record.sequence)

    def hold(self, record: JobRecord) -> None:
        """Remember a job until it has ended, and a while longer."""
        with self._lock:
            self._put(record)

    # `Any`: values of the record's fields.
    def publish(self, base: JobRecord, changed: JobRecord, changes: Mapping[str, Any]) -> None:
        """Replace a record by the one that was made of it; jobs that are not in memory are ignored.

        If somebody else has committed another change of it meanwhile, both stay.

        Args:
            base: The record that was changed.
            changed: The record with the changes.
            changes: New values by name.
        """
        with self._lock:
            if (known := self.find(base.id)) is not None:
                self._put(changed if known is base else known.changed(changes))

    def forget(self, *jobs: JobId) -> None:
        """Forget jobs that are deleted."""
        with self._lock:
            for job in jobs:
                if (record := self._live.pop(job, None)) is not None:
                    self._discard_driver(record)
                if (record := self._ended.pop(job, record)) is not None:
                    self._leave_directory(record)

    def _put(self, record: JobRecord) -> None:
        if directory := record.artifact_dir_of_client:
            self._in_directory[directory].add(record.id)
        if not record.phase.is_terminal:
            self._live[record.id] = record
            if record.type is JobType.DRIVER:
                self._drivers[record.user.uid].add(record.id)
            return
        self._live.pop(record.id, None)
        self._discard_driver(record)
        self._ended[record.id] = record
        if len(self._ended) > self._num_ended:
            self._leave_directory(self._ended.popitem(last=False)[1])

    def _leave_directory(self, record: JobRecord) -> None:
        if directory := record.artifact_dir_of_client:
            there = self._in_directory[directory]
            there.discard(record.id)
            if not there:
                del self._in_directory[directory]

    def _discard_driver(self, record: JobRecord) -> None:
        if record.type is JobType.DRIVER:
            mine = self._drivers[record.user.uid]
            mine.discard(record.id)
            if not mine:
                del self._drivers[record.user.uid]
