"""Keeps logs and work directories of jobs from filling the disk, in a thread of its own.

There is a limit for each log, and an age, a size and a number for the directories of all jobs that
have ended. Logs of jobs that have not ended lose only their beginnings. When a job loses its logs,
an event of the job says so, and its whole work directory is removed with them. A directory without
logs, such as one of a job that could not be started, is removed soon.
"""

import errno
import logging
import os
import shutil
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from appliance.core.cluster.records import EventRecord
from appliance.core.errors import StaleWriterError, UserError
from appliance.core.ids import JobId
from appliance.management.logs.log_files import drop_head
from appliance.management.store.state import State

logger = logging.getLogger(__name__)

_TRIM_SECONDS = 10.0
_SWEEP_EVERY = 30
"""Looks at running jobs' logs for one at those of all jobs."""
_KEPT_SHARE = 0.5
"""What is left of a log that has reached its limit, so that it is not cut at each look."""
_DAY_SECONDS = 86_400.0
_EMPTY_SECONDS = 3600.0
"""How long the directory of a job stays that has ended and has no logs."""
_GIB = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLimits:
    """How much output of pods is stored.

    Attributes:
        pod_bytes: Of one pod; older lines go first. 0 sets no limit.
        total_bytes: Of all jobs that have ended; the oldest go first. 0 sets no limit.
        age_seconds: Logs of jobs that have printed nothing for longer are removed; 0 keeps them as
            long as the job is known.
        num_jobs: Jobs that have ended and still have their logs; the oldest go first. 0 sets no
            limit. File systems have a limit to the number of files, and a job has some ten.
    """

    pod_bytes: int
    total_bytes: int
    age_seconds: float
    num_jobs: int = 50_000

    def __post_init__(self) -> None:
        if min(self.pod_bytes, self.total_bytes, self.age_seconds, self.num_jobs) < 0:
            raise UserError(
                f"Logs cannot be limited to {self.pod_bytes:,} bytes a pod, {self.total_bytes:,} "
                f"bytes altogether, {self.age_seconds:g} seconds and {self.num_jobs:,} jobs; 0 "
                "sets no limit."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLogs:
    """The logs of one job on disk.

    Attributes:
        files: Them; none if the job was never started.
        num_bytes: What they take of the disk.
        written_at: When one of them was last written to, in seconds since 1970; or when the job's
            directory was made.
    """

    job: JobId
    files: tuple[Path, ...]
    num_bytes: int
    written_at: float


class LogRetention:
    """Trims and removes logs.

    Args:
        state: Which jobs have ended, and where removals are written down.
        jobs_dir: Holds the jobs' directories.
        own_logs: Logs of the appliance itself; limited like those of pods.
        limits: See `LogLimits`.
    """

    def __init__(
        self, state: State, jobs_dir: Path, own_logs: tuple[Path, ...], limits: LogLimits
    ) -> None:
        self._state, self._jobs_dir, self._own_logs = state, jobs_dir, own_logs
        self._limits = limits
        self._is_closing = threading.Event()
        self._has_holes = True
        self._thread = threading.Thread(target=self._run, name="log-retention", daemon=True)

    def start(self) -> None:
        """Begin to look, now and then."""
        self._thread.start()

    def close(self) -> None:
        """Stop."""
        self._is_closing.set()
        if self._thread.is_alive():
            self._thread.join()

    def trim(self) -> None:
        """Cut the logs of jobs that have not ended, and the appliance's own."""
        if not self._limits.pod_bytes or not self._has_holes:
            return
        running = self._state.job_pages.granted()
        logs = [*self._own_logs, *(file for job in running for file in _files(self._dir(job)))]
        for path in logs:
            self._trim(path)

    def sweep(self) -> None:
        """Remove directories of jobs that have ended if they are too old, or too much."""
        found = list(self._ended())
        for logs, reason in expendable(found, self._limits, self._state.clock.now().timestamp()):
            if self._is_closing.is_set():
                return
            self._remove(logs, reason)

    def _trim(self, path: Path) -> None:
        limit = self._limits.pod_bytes
        try:
            if path.stat().st_blocks * 512 <= limit:
                return
            freed = drop_head(path, int(limit * _KEPT_SHARE))
        except FileNotFoundError:
            return
        except (OSError, UserError) as error:
            number = error.errno if isinstance(error, OSError) else None
            if number in (errno.EOPNOTSUPP, errno.ENOSYS):  # so it is for every file
                self._has_holes = False
            logger.warning(
                "A log that is written to cannot be shortened; it grows on",
                extra={"path": str(path), "why": str(error)},
            )
            return
        logger.info("Log was shortened", extra={"path": str(path), "freed_bytes": freed})

    def _ended(self) -> Iterator[JobLogs]:
        unfinished = self._state.job_pages.unfinished()
        try:
            names = os.listdir(self._jobs_dir)
        except FileNotFoundError:
            return
        for name in names:
            job = JobId(name)
            if job in unfinished:
                continue
            found = [(each, each.stat()) for each in _files(self._dir(job))]
            written = [status.st_mtime for _, status in found]
            try:
                yield JobLogs(
                    job=job,
                    files=tuple(path for path, _ in found),
                    num_bytes=sum(status.st_blocks * 512 for _, status in found),
                    written_at=max(written or [(self._jobs_dir / job).stat().st_mtime]),
                )
            except FileNotFoundError:  # just forgotten, directory and all
                continue

    def _remove(self, logs: JobLogs, reason: str) -> None:
        if self._state.jobs.find(logs.job) is None:
            return  # just being forgotten, logs and all; or just being submitted
        shutil.rmtree(self._jobs_dir / logs.job, ignore_errors=True)
        if not logs.files:
            logger.debug("Work directory was removed", extra={"job": logs.job, "why": reason})
            return
        message = f"{len(logs.files)} log(s) with {logs.num_bytes:,} bytes were removed: {reason}"
        logger.info("Logs were removed", extra={"job": logs.job, "why": reason})
        self._state.jobs.add_event(
            EventRecord(
                job=logs.job,
                at=self._state.clock.now(),
                reason="LogsRemoved",
                message=message,
                subject=logs.job,
            )
        )

    def _dir(self, job: str) -> Path:
        return self._jobs_dir / job / "logs"

    def _run(self) -> None:
        turn = 0
        while not self._is_closing.wait(_TRIM_SECONDS):
            try:
                self.trim()
                if turn % _SWEEP_EVERY == 0:
                    self.sweep()
            except StaleWriterError:
                self._is_closing.set()
            except Exception:  # outermost loop of the thread
                logger.exception("Logs were not looked after in one turn")
            turn += 1


def expendable(
    found: Sequence[JobLogs], limits: LogLimits, now: float
) -> Iterator[tuple[JobLogs, str]]:
    """Yield the logs of ended jobs that are to be removed, each with the reason.

    Args:
        limits: By which they are judged.
        now: The time, in seconds since 1970.
    """
    kept = []
    for logs in found:
        age = now - logs.written_at
        if not logs.files and age > _EMPTY_SECONDS:
            yield logs, "the job ended without having been started"
        elif limits.age_seconds and age > limits.age_seconds:
            yield logs, f"they were older than {limits.age_seconds / _DAY_SECONDS:g} day(s)"
        elif logs.files:
            kept.append(logs)
    num_bytes, num_jobs = sum(logs.num_bytes for logs in kept), len(kept)
    for logs in sorted(kept, key=lambda each: each.written_at):
        if limits.total_bytes and num_bytes > limits.total_bytes:
            yield logs, f"all logs together took more than {limits.total_bytes / _GIB:g} GiB"
        elif limits.num_jobs and num_jobs > limits.num_jobs:
            yield logs, f"more than {limits.num_jobs:,} jobs had logs"
        else:
            return
        num_bytes, num_jobs = num_bytes - logs.num_bytes, num_jobs - 1


def _files(directory: Path) -> list[Path]:
    try:
        return [path for path in directory.iterdir() if path.is_file()]
    except FileNotFoundError:
        return []
