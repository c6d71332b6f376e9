"""What another user of the machine tries on it: files, sockets, processes, memory."""

import ctypes
import os
import signal
import socket
import stat
from pathlib import Path

from tests.attack.targets import Target

_PUBLIC = ("machine-code",)
"""Directories that docs/entry-points.md says others may read."""
_OF_A_PROCESS = ("environ", "mem", "maps", "auxv", "fd", "cwd", "root", "exe", "stack", "io")
_PTRACE_SEIZE, _PTRACE_DETACH = 0x4206, 17


def no_file_is_opened(target: Target) -> str:
    """Opens every file and directory of the appliance, for reading and for writing."""
    for path in target.paths:
        if any(part in _PUBLIC for part in Path(path).parts):
            continue
        for flags in (os.O_RDONLY, os.O_WRONLY | os.O_APPEND):
            try:
                os.close(os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW))
            except OSError:
                continue
            return f"{path} with {flags:#o}"
    return ""


def nothing_is_put_where_the_appliance_looks(target: Target) -> str:
    """Makes a file in every directory of the appliance, also in those that others may read."""
    for path in target.paths:
        try:
            if not stat.S_ISDIR(os.lstat(path).st_mode):
                continue
            made = Path(path) / "of-a-stranger"
            made.touch()
        except OSError:
            continue
        made.unlink()
        return f"{made}"
    return ""


def no_socket_answers(target: Target) -> str:
    """Connects to every Unix socket of the appliance, also to the abstract ones."""
    paths = [path for path in target.paths if path.endswith(".sock")]
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        name = line.split()[-1]
        if name.startswith("@") and ("wsc" in name or "appliance" in name):
            paths.append("\0" + name[1:])
    for path in paths:
        if found := _answers(path):
            return f"{path!r}: {found}"
    return ""


def _answers(path: str) -> str:
    for kind in (socket.SOCK_SEQPACKET, socket.SOCK_STREAM):
        with socket.socket(socket.AF_UNIX, kind) as end:
            end.settimeout(2)
            try:
                end.connect(path)
                end.sendall(b'{"job": "x", "argv": ["id"], "imports": []}\n')
                data = end.recv(4096)
            except OSError:
                continue
            if data:
                return f"answers {data[:60]!r}"
    return ""


def no_process_is_looked_into(target: Target) -> str:
    """Reads /proc of the appliance's processes, traces them, sends them signals."""
    library = ctypes.CDLL(None, use_errno=True)
    for process in target.processes:
        if found := _opened(process):
            return found
        if library.ptrace(_PTRACE_SEIZE, process, 0, 0) == 0:
            library.ptrace(_PTRACE_DETACH, process, 0, 0)
            return f"traces {process}"
        try:
            os.kill(process, signal.SIGCONT)
        except OSError:
            continue
        return f"signals {process}"
    return ""


def _opened(process: int) -> str:
    for name in _OF_A_PROCESS:
        path = f"/proc/{process}/{name}"
        try:
            if name in ("cwd", "root", "exe"):
                os.readlink(path)
            elif name == "fd":
                os.listdir(path)
            elif not Path(path).read_bytes()[:1]:
                continue
        except OSError:
            continue
        return path
    return ""


def no_command_line_shows_a_secret(target: Target) -> str:
    """Reads the command lines of all processes, and the names of abstract sockets."""
    texts = [Path("/proc/net/unix").read_text(), Path("/proc/net/tcp").read_text()]
    for process in target.processes:
        try:
            texts.append(Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace"))
        except OSError:
            continue
    shown = [secret for secret in target.secrets if any(secret in text for text in texts)]
    return f"shown: {shown[0][:8]}..." if shown else ""


def no_shared_memory_is_opened(target: Target) -> str:
    """Opens what other users have in /dev/shm of the appliance's jobs."""
    for path in sorted(Path("/dev/shm").iterdir()):
        if target.job not in path.name and "wsc" not in path.name:
            continue
        try:
            os.close(os.open(path, os.O_RDONLY))
        except OSError:
            continue
        return str(path)
    return ""


MACHINE = (
    no_file_is_opened,
    nothing_is_put_where_the_appliance_looks,
    no_socket_answers,
    no_process_is_looked_into,
    no_command_line_shows_a_secret,
    no_shared_memory_is_opened,
)
