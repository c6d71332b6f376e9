"""The log files of pods in a job's work directory, which stay after the job has ended."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar, TypeVarTuple

from appliance.core.cluster.jobs import JobType
from appliance.core.cluster.records import JobRecord
from appliance.core.errors import NotFoundError
from appliance.core.ids import JobId, Role
from appliance.management.store.state import State

_Read = TypeVar("_Read")
_Arguments = TypeVarTuple("_Arguments")
_NUM_READERS = 4
"""Threads that read logs: more would not make a disk faster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLog:
    """One log of a job.

    Attributes:
        pod: The pod's name; for a program inside a pod, the pod's with the program's.
        path: The file, which need not exist yet.
    """

    pod: str
    path: Path


class LogService:
    """Finds logs.

    Args:
        state: The appliance's database.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._readers = ThreadPoolExecutor(max_workers=_NUM_READERS, thread_name_prefix="log-read")

    def close(self) -> None:
        """Read nothing more; what is being read ends in milliseconds."""
        self._readers.shutdown(wait=False, cancel_futures=True)

    async def read(
        self, function: Callable[[*_Arguments], _Read], *arguments: *_Arguments
    ) -> _Read:
        """Return what a function of `log_files` does, in threads that nothing else waits for.

        Who goes away before it has begun takes it back.
        """
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._readers, partial(function, *arguments))

    def load_job(self, job: JobId) -> JobRecord:
        """Return the job; raises `NotFoundError`."""
        return self._state.jobs.load(job)

    def logs(self, job: JobId) -> Sequence[JobLog]:
        """Return the logs that a job has, by pod; raises `NotFoundError`."""
        record = self.load_job(job)
        files = sorted(_directory(record).glob("*.log"))
        return [JobLog(pod=f"{job}-{path.stem}", path=path) for path in files]

    def find(self, job: JobId, pod: str) -> JobLog:
        """Return one log of a job, which need not exist yet if it is that of the main pod.

        Args:
            pod: Name of a pod, or the end of it; empty for the main pod: a driver's script, or the
                coordinator.

        Raises:
            NotFoundError: There is no such job, or no such log.
        """
        record = self.load_job(job)
        main = Role.DRIVER if record.type is JobType.DRIVER else Role.COORDINATOR
        name = pod.removeprefix(f"{job}-") or f"{main.value}-0"
        known = {each.path.stem: each for each in self.logs(job)}
        if name in known:
            return known[name]
        if name == f"{main.value}-0":
            return JobLog(pod=f"{job}-{name}", path=_directory(record) / f"{name}.log")
        raise NotFoundError(
            f"Job {job} has no log of {pod!r}.",
            hint=f"It has: {', '.join(known) or 'none yet'}.",
        )


def _directory(record: JobRecord) -> Path:
    return Path(record.work_dir) / "logs"
