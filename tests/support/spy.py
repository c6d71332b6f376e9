"""Tries, as whoever runs it, to get at what it is told of; prints what it got at as JSON.

`spy.py TARGETS`, where TARGETS is a JSON file with lists of `paths`, `sockets`, abstract
`addresses` and `pids`. Imports nothing of ours: it runs as another user.
"""

import json
import os
import socket
import sys
from collections.abc import Callable, Iterator


def worked(attempt: Callable[[], object]) -> bool:
    """Whether something can be done."""
    try:
        return attempt() is not False
    except OSError:
        return False


def opened(path: str, flags: int) -> None:
    """Open and close something."""
    os.close(os.open(path, flags | os.O_NONBLOCK))


def answers(address: str, kind: int) -> bool:
    """Whether somebody behind a socket says anything, or keeps us."""
    with socket.socket(socket.AF_UNIX, kind) as connection:
        connection.settimeout(5)
        connection.connect(address)
        if not address.startswith("\0"):
            return True
        connection.send(b'{"module": "this", "arguments": [], "directory": "/"}')
        return bool(connection.recv(1 << 16))


def of_process(pid: int) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield what might be got of a process."""
    for name in ("environ", "mem", "maps"):
        yield name, lambda name=name: open(f"/proc/{pid}/{name}", "rb").read(1)  # noqa: SIM115
    for name in ("cwd", "root", "exe"):
        yield name, lambda name=name: os.readlink(f"/proc/{pid}/{name}")
    yield "fd", lambda: os.listdir(f"/proc/{pid}/fd")
    yield "signal", lambda: os.kill(pid, 0)


def main() -> None:
    """Try everything."""
    with open(sys.argv[1]) as file:
        targets = json.load(file)
    got = []
    for path in targets["paths"]:
        if worked(lambda path=path: opened(path, os.O_RDONLY)):
            got.append(f"read {path}")
        if worked(lambda path=path: opened(path, os.O_WRONLY)):
            got.append(f"write {path}")
    kinds = (socket.SOCK_STREAM, socket.SOCK_SEQPACKET)
    got += [
        f"call {address}"
        for address in targets["sockets"]
        if any(worked(lambda kind=kind, at=address: answers(at, kind)) for kind in kinds)
    ]
    got += [
        f"call @{address}"
        for address in targets["addresses"]
        if worked(lambda at=address: answers("\0" + at, socket.SOCK_SEQPACKET))
    ]
    got += [
        f"{name} of {pid}"
        for pid in targets["pids"]
        for name, attempt in of_process(pid)
        if worked(attempt)
    ]
    print(json.dumps(got))


if __name__ == "__main__":
    main()
