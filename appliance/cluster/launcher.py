"""The protocol by which management starts and stops pods, whatever runs them."""

import queue
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Protocol

from appliance.core.ids import JobId, PodName, Role
from appliance.core.pods.end_cause import EndCause
from appliance.core.pods.pod_spec import PodSpec
from appliance.core.quick_init import quick_init


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class PodExit:
    """A pod has ended.

    Attributes:
        job: The job it belonged to.
        role: What it did.
        exit_code: Exit code; 128 plus the number when a signal ended it.
        signal: Number of the signal that ended it; None when it exited by itself.
        detail: Why, beyond the code; may be empty.
    """

    job: JobId
    pod: PodName
    role: Role
    exit_code: int
    signal: int | None = None
    detail: str = ""
    cause: EndCause = EndCause.PROCESS

    @property
    def reason(self) -> str:
        """How it ended, as in `exited with code 137 (killed by signal 9)`."""
        by_signal = f" (killed by signal {self.signal})" if self.signal else ""
        detail = f": {self.detail}" if self.detail else ""
        return f"exited with code {self.exit_code}{by_signal}{detail}"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStopped:
    """Nothing of a job runs any more, and its runtime directory is gone."""

    job: JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class Survivor:
    """A job whose pods an earlier management launched.

    Attributes:
        pids: Process ids of its pods, dead or alive.
        exits: Which of them have ended, in order, whether that was told before or not.
        is_stopped: Whether the job was stopped and nothing of it is left.
    """

    pids: Mapping[PodName, int]
    exits: tuple[PodExit, ...]
    is_stopped: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LauncherLost:
    """What held the pods has itself ended, and every pod with it.

    Attributes:
        jobs: The jobs that had pods.
        reason: What happened.
    """

    jobs: tuple[JobId, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LauncherTaken:
    """Another management holds the pods now; this one will hear of none of them again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodsWait:
    """Pods of a job that were launched do not run yet, for a reason that somebody may remove.

    Attributes:
        reason: Which pods, and why; empty once none waits any more.
    """

    job: JobId
    reason: str


Exit = PodExit | JobStopped | LauncherLost | LauncherTaken | PodsWait


class Exits(queue.SimpleQueue[Exit]):
    """A queue of exits in order: held until they are read, or passed to a subscriber.

    A thread that waits here to pass on what comes would cost management, for each end, two changes
    of threads and a fight for the interpreter's lock.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._take: Callable[[Exit], None] | None = None

    def put(self, item: Exit, block: bool = True, timeout: float | None = None) -> None:
        """Report something that has ended; never waits."""
        with self._lock:
            if self._take is not None:
                self._take(item)
            else:
                super().put(item)

    def hand_to(self, take: Callable[[Exit], None]) -> None:
        """Let somebody take what has ended and what ends from now on, in the thread that tells.

        Args:
            take: Must neither wait nor raise.
        """
        with self._lock:
            while not self.empty():
                take(self.get())
            self._take = take


class Launcher(Protocol):
    """Runs pods."""

    @property
    def exits(self) -> Exits:
        """What has ended, in order."""
        ...

    @property
    def node(self) -> str:
        """Name of the node on which pods run."""
        ...

    @property
    def is_far(self) -> bool:
        """Whether `launch`, `stop` and `forget` may have to wait for other machines.

        They are then called in several threads, for each job in one after the other.
        """
        ...

    def runtime_dir(self, job: JobId) -> Path:
        """Return the directory for a job's sockets; `launch` creates it, `stop` removes it."""
        ...

    def survivors(self) -> Mapping[JobId, Survivor]:
        """Return the jobs that an earlier management launched and that were not forgotten."""
        ...

    def launch(self, pods: Sequence[PodSpec], request: bytes = b"") -> Mapping[PodName, int]:
        """Start the pods of one job, all or none; a job that was launched is not launched again.

        Args:
            request: What submitted the job, written into its work directory for them; empty if none
                of them reads it, or it is there.

        Returns:
            Their process ids.

        Raises:
            ClusterError: One could not be started; none runs.
        """
        ...

    def stop(self, job: JobId) -> None:
        """End everything of a job; a `JobStopped` follows in `exits`, also if nothing ran."""
        ...

    def forget(self, job: JobId) -> None:
        """Take note that the end of a stopped job is recorded."""
        ...

    def abandon(self) -> None:
        """Leave every pod to the next management."""
        ...

    def close(self) -> None:
        """End every pod and release what the launcher holds."""
        ...
