"""`python -m appliance.cluster.pod_container --spec FILE`: the first process of a pod's container.

It runs the pod's role in a process of its own and does for it what the fork server does elsewhere:
it copies the role's output into the job's log on the shared volume and to its own output, for
`kubectl logs`; forwards signals; and reaps orphans, as process 1 must.
"""

import argparse
import os
import selectors
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from appliance.cluster.pod_process import become_subreaper, entry_module, run_role
from appliance.core.addresses import is_loopback
from appliance.core.pods.pod_spec import PodSpec
from appliance.pods.children import ended_children
from appliance.pods.start_signal import StartSignal

_CHUNK_BYTES = 1 << 16
_GROUP_CAN_WRITE = 0o007
"""The volume's files belong to a group that management is in: it removes them one day."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a pod, and return its exit code; 128 and the number for a signal."""
    parser = argparse.ArgumentParser(prog="python -m appliance.cluster.pod_container")
    parser.add_argument("--spec", type=Path, required=True, help="JSON file with the pod's spec")
    parser.add_argument("--address", default="", help="where other pods reach this one")
    parser.add_argument("--start", type=Path, help="file that hints, once it says something: go")
    parser.add_argument("--entry", default="", help="another module for the role, for tests")
    arguments = parser.parse_args(argv)
    os.umask(_GROUP_CAN_WRITE)
    spec = PodSpec.from_json(arguments.spec.read_text())
    spec = spec.at(arguments.address, _public_name(arguments.address))
    spec.runtime_dir.mkdir(parents=True, exist_ok=True)
    if arguments.start is not None and (number := StartSignal(spec, arguments.start).wait()):
        return 128 + number
    spec.log_path.parent.mkdir(parents=True, exist_ok=True)
    become_subreaper()
    reader, writer = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.close(reader)
        run_role(spec, arguments.entry or entry_module(spec), output=writer)
    os.close(writer)
    return _Keeper(child, reader, spec.log_path).keep()


def _public_name(address: str) -> str:
    """Return what clients call an address: they take no address of loopback, but its name."""
    return "localhost" if is_loopback(address) else address


class _Keeper:
    """Watches over the role's process.

    Args:
        child: Its process id.
        reader: What it prints comes from here.
        log_path: Where that goes, beside our own output.
    """

    def __init__(self, child: int, reader: int, log_path: Path) -> None:
        self._child, self._reader = child, reader
        self._log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o660)
        self._exit_code: int | None = None

    def keep(self) -> int:
        """Return the exit code once the process, and what it printed, have come to their end."""
        wake, wakened = os.pipe()
        for end in (wake, wakened):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(wakened, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, _: os.kill(self._child, number))
        with selectors.DefaultSelector() as selector:
            selector.register(self._reader, selectors.EVENT_READ)
            selector.register(wake, selectors.EVENT_READ)
            while self._exit_code is None:
                for key, _ in selector.select():
                    if key.fd == wake:
                        os.read(wake, _CHUNK_BYTES)
                    elif not self._copy():
                        selector.unregister(self._reader)
                self._reap()
        os.set_blocking(self._reader, False)  # children of the pod may yet hold the other end
        while self._copy():
            pass
        return self._exit_code

    def _copy(self) -> bool:
        """Copy what there is; False at the end, or when there is nothing now."""
        try:
            data = os.read(self._reader, _CHUNK_BYTES)
        except BlockingIOError:
            return False
        for target in (self._log, sys.stdout.fileno()):
            rest = data
            while rest:
                rest = rest[os.write(target, rest) :]
        return bool(data)

    def _reap(self) -> None:
        for pid, code in ended_children():
            if pid == self._child:
                self._exit_code = 128 - code if code < 0 else code


if __name__ == "__main__":
    raise SystemExit(main())
