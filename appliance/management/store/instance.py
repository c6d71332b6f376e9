"""The one appliance of a data directory: its lock, its published addresses, how it is ended."""

import fcntl
import json
import os
import select
import signal
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from appliance.core.errors import ClusterError, ConflictError
from appliance.management.store.persistent_ports import Ports

STOP_SECONDS = 120.0
"""How long `appliance down` waits before it gives up on an orderly end, which takes some seconds;
a machine whose cores many more programs want takes ten times as long."""


_LOOKS = 25
_LOOK_SECONDS = 0.02
"""How often, and how long apart, a lock is tried that `is_running` may hold for a moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceState:
    """What a running appliance says of itself.

    Attributes:
        pid: Its process id.
        address: host:port for clients.
        rest_url: URL of the REST shell.
        config_path: The client's configuration file.
        runtime_root: Where its sockets are.
        num_systems: Its systems.
        join_address: host:port at which agents of nodes join; empty if all runs on one machine.
        ports: Where it listens, for whoever takes its place if it does not end in order.
    """

    pid: int
    address: str
    rest_url: str
    config_path: str
    runtime_root: str
    num_systems: int
    join_address: str = ""
    ports: Ports = field(default_factory=Ports)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "InstanceState":  # `Any`: values of JSON
        """Return what `dataclasses.asdict` wrote.

        Raises:
            TypeError: Something else wrote it.
        """
        return cls(**{**fields, "ports": Ports(**fields.get("ports", {}))})


class Instance:
    """The appliance of a data directory, running or not.

    Args:
        data_dir: The data directory.
    """

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._lock_path = data_dir / "appliance.lock"
        self._state_path = data_dir / "appliance.json"
        self._lock: int | None = None

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
        lock = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        for _ in range(_LOOKS):
            if _take(lock):
                self._lock = lock
                return
            threading.Event().wait(_LOOK_SECONDS)
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
        """Whether some process holds the lock."""
        if not self._lock_path.exists():
            return False
        lock = os.open(self._lock_path, os.O_RDWR | os.O_CLOEXEC)
        try:
            return not _take(lock)
        finally:
            os.close(lock)

    def write_state(self, state: InstanceState) -> None:
        """Let others know of this appliance."""
        partial = self._state_path.with_suffix(".new")
        partial.write_text(json.dumps(asdict(state), indent=1) + "\n")
        partial.replace(self._state_path)

    def find_state(self) -> InstanceState | None:
        """Return what the running, or last, appliance said; None if there is nothing."""
        try:
            return InstanceState.from_dict(json.loads(self._state_path.read_text()))
        except (FileNotFoundError, ValueError, TypeError, AttributeError):
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
        if not self.is_running() or state is None:
            self.clear_state()
            return False
        if not _end(state.pid):
            raise ClusterError(
                f"The appliance (process {state.pid}) did not end within {STOP_SECONDS:g} seconds.",
                hint=f"Look into {self.log_path}; `kill -9 {state.pid}` ends it and its pods.",
            )
        self.clear_state()
        return True


def _end(pid: int) -> bool:
    """End a process in order; return whether it has ended in time.

    It counts as ended even if nobody reaps it, as in a container whose first process does not.
    """
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        signal.pidfd_send_signal(process, signal.SIGTERM)
        end = select.poll()
        end.register(process, select.POLLIN)
        return bool(end.poll(STOP_SECONDS * 1000))
    except ProcessLookupError:
        return True
    finally:
        os.close(process)


def _take(lock: int) -> bool:
    """Take the lock of an open file, if nobody has it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
