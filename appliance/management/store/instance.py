"""The one appliance of a data directory: its lock, its published addresses, how it is ended.

It holds two locks: of a file, and of the directory itself, since a file may be removed. The file
is for file systems that lock no directory (NFS).
"""

import contextlib
import errno
import fcntl
import json
import os
import select
import signal
import threading
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from appliance.core.errors import ClusterError, ConflictError
from appliance.files.kept_files import read_own, replace_file
from appliance.management.store.persistent_ports import Ports

STOP_SECONDS = 120.0
"""How long `appliance down` waits before it gives up on an orderly end, which takes some seconds;
a machine whose cores many more programs want takes ten times as long."""


_LOOKS = 25
_LOOK_SECONDS = 0.02
"""How often, and how long apart, a lock is tried that `is_running` may hold for a moment."""

_NO_LOCKS = (errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.EOPNOTSUPP)
_HINT = "`appliance up` writes it anew."


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceState:
    """What a running appliance says of itself.

    Attributes:
        pid: Its process id.
        address: host:port for clients.
        rest_url: URL of the REST shell.
        config_path: The client's configuration file.
        runtime_root: Where its sockets are.
        started: When its process began, in clock ticks since the machine did, as its id may be
            another's once it has ended; 0 of an earlier version.
        join_address: host:port at which agents of nodes join; empty if all runs on one machine.
        ports: Where it listens, for whoever takes its place if it does not end in order.
    """

    pid: int
    address: str
    rest_url: str
    config_path: str
    runtime_root: str
    num_systems: int
    started: int = 0
    join_address: str = ""
    ports: Ports = field(default_factory=Ports)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "InstanceState":  # `Any`: values of JSON
        """Return what `dataclasses.asdict` wrote.

        Raises:
            TypeError: Something else wrote it.
        """
        made = cls(**{**fields, "ports": Ports(**fields.get("ports", {}))})
        numbers = (made.pid, made.started, made.num_systems, *asdict(made.ports).values())
        texts = (made.address, made.rest_url, made.config_path, made.runtime_root)
        if any(type(each) is not int or each < 0 for each in numbers) or made.pid == 0:
            raise TypeError("One of the numbers is none.")
        if not all(isinstance(each, str) for each in (*texts, made.join_address)):
            raise TypeError("One of the texts is none.")
        return made


class Instance:
    """The appliance of a data directory, running or not.

    Args:
        data_dir: The data directory.
    """

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._lock_path = data_dir / "appliance.lock"
        self._state_path = data_dir / "appliance.json"
        self._locks: tuple[int, ...] = ()

    @property
    def log_path(self) -> Path:
        """Log of an appliance that runs in the background."""
        return self._data_dir / "management.log"

    def open_log(self) -> BinaryIO:
        """Return the log to append to; makes the data directory, for its owner alone.

        Raises:
            OSError: The disk refuses it.
        """
        self._data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self.log_path.open("ab")

    def acquire(self) -> None:
        """Become the appliance of this data directory, until this process ends.

        Raises:
            ConflictError: Another process is.
        """
        self._data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        locks = (
            os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600),
            os.open(self._data_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC),
        )
        for _ in range(_LOOKS):
            if all(_take(lock, fcntl.LOCK_EX) for lock in locks):
                self._locks = locks
                return
            for lock in locks:
                with contextlib.suppress(OSError):  # of a file system without such locks
                    fcntl.flock(lock, fcntl.LOCK_UN)
            threading.Event().wait(_LOOK_SECONDS)
        for lock in locks:
            os.close(lock)
        raise self.already_runs()

    def already_runs(self) -> ConflictError:
        """Return the error that says so."""
        state = self.find_state()
        which = f" (process {state.pid}, at {state.address})" if state else ""
        return ConflictError(
            f"An appliance already runs on {self._data_dir}{which}.",
            hint="Stop it with `appliance down`, or give another --data-dir.",
        )

    def is_running(self) -> bool:
        """Whether some process holds a lock, or the one that was published is still there."""
        if any(_is_taken(path) for path in (self._lock_path, self._data_dir)):
            return True
        state = self.find_state()
        return state is not None and state.started != 0 and _is_there(state)

    def write_state(self, state: InstanceState) -> None:
        """Let others know of this appliance."""
        text = json.dumps(asdict(state), indent=1) + "\n"
        replace_file(self._state_path, text.encode(), mode=0o644)

    def find_state(self) -> InstanceState | None:
        """Return what the running, or last, appliance said; None if nothing, or it is damaged."""
        try:
            text = read_own(self._state_path, what="the state of an appliance", hint=_HINT)
            return InstanceState.from_dict(json.loads(text))
        except (FileNotFoundError, ClusterError, ValueError, TypeError, AttributeError):
            return None

    def kept_ports(self) -> Ports:
        """Return the ports of the last appliance, if it did not end in order."""
        state = self.find_state()
        return Ports() if state is None else state.ports

    def clear_state(self) -> None:
        """Remove the published addresses."""
        self._state_path.unlink(missing_ok=True)

    def stop(self) -> bool:
        """End the appliance in order and wait until it is gone.

        Returns:
            False if none runs.

        Raises:
            ClusterError: It does not end.
        """
        state = self.find_state()
        if not self.is_running():
            self.clear_state()
            return False
        if state is None or not _is_there(state):
            raise ClusterError(
                f"An appliance runs on {self._data_dir}, and {self._state_path.name} does not say "
                "which process it is: the file is damaged or gone, or the appliance is starting.",
                hint=f"Try again in a moment; or `fuser -v {self._data_dir}` names the process, "
                "and `kill` ends it in order.",
            )
        if not _end(state):
            raise ClusterError(
                f"The appliance (process {state.pid}) did not end within {STOP_SECONDS:g} seconds.",
                hint=f"Look into {self.log_path}; `kill -9 {state.pid}` ends it and its pods.",
            )
        self.clear_state()
        return True


def started_at(pid: int) -> int:
    """Return when a process began, in clock ticks; 0 if it has ended, or nobody knows."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    state, started = fields[0], fields[19]
    return 0 if state in "ZX" else int(started)


def _is_there(state: InstanceState) -> bool:
    """Whether the process that published a state has not ended, reaped or not."""
    now = started_at(state.pid)
    return now != 0 and now == (state.started or now)


def _end(state: InstanceState) -> bool:
    """End a process in order; return whether it has ended in time.

    It counts as ended even if nobody reaps it, as in a container whose first process does not.
    """
    try:
        process = os.pidfd_open(state.pid)
    except ProcessLookupError:
        return True
    try:
        if not _is_there(state):
            return True
        signal.pidfd_send_signal(process, signal.SIGTERM)
        end = select.poll()
        end.register(process, select.POLLIN)
        return bool(end.poll(STOP_SECONDS * 1000))
    except ProcessLookupError:
        return True
    finally:
        os.close(process)


def _is_taken(path: Path) -> bool:
    """Whether some process holds the lock of a file or directory; others may look meanwhile."""
    with _opened(path) as lock:
        return lock is not None and not _take(lock, fcntl.LOCK_SH)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int | None]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _take(lock: int, how: int) -> bool:
    """Take the lock of an open file, if nobody has it; True where it cannot be locked at all."""
    try:
        fcntl.flock(lock, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    return True
