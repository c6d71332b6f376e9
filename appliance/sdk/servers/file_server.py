"""Files of an SDK job: `python -m appliance.sdk.servers.file_server DESCRIPTOR ROOT`.

What the client uploads is written, and what it downloads read, by this program, which has the
user's rights and no others. So nothing that the user's programs put in the way (links, devices)
leads to what the user could not have reached anyway. Paths come checked: relative, without `..`.

Requests: `write` (path, append) with the bytes; `extract` (path, into, max_bytes, max_files) a tar
archive; `read` (path, max_bytes) a file, or a directory as tar.gz; `pack` (directory, names,
max_bytes) some of a directory as tar.gz; `remove` (path). An answer has `error`, or `name` and the
bytes.
"""

import contextlib
import io
import os
import shutil
import socket
import stat
import sys
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from appliance.sdk.servers import frames


class RefusedError(Exception):
    """The request cannot be served; the message is for the client."""


class FileServer:
    """Carries requests out below one directory.

    Args:
        root: The directory.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        # `Any`: values of a JSON object.
        self._methods: Mapping[str, Callable[[Mapping[str, Any], bytes], tuple[str, bytes]]] = {
            "write": self._write,
            "extract": self._extract,
            "read": self._read,
            "pack": self._pack,
            "remove": self._remove,
        }

    def serve(self, connection: socket.socket) -> None:
        """Answer until the other end hangs up."""
        while frame := frames.receive(connection, max_payload_bytes=frames.MAX_FILE_BYTES):
            try:
                name, payload = self._methods[frame.header["op"]](frame.header, frame.payload)
            except RefusedError as error:
                frames.send(connection, {"error": str(error)})
            except (OSError, tarfile.TarError, EOFError) as error:
                frames.send(connection, {"error": _story(error, self._root)})
            else:
                frames.send(connection, {"name": name}, payload)

    def _write(self, request: Mapping[str, Any], data: bytes) -> tuple[str, bytes]:
        path = self._root / request["path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        flags |= os.O_APPEND if request["append"] else os.O_TRUNC
        with os.fdopen(os.open(path, flags, 0o644), "wb") as file:
            file.write(data)
        return path.name, b""

    def _extract(self, request: Mapping[str, Any], _: bytes) -> tuple[str, bytes]:
        target = self._root / request["into"]
        target.mkdir(parents=True, exist_ok=True)
        path = self._root / request["path"]
        num_bytes = num_files = 0
        with tarfile.open(path, "r:*") as archive:
            for member in archive:
                num_files += 1
                num_bytes += member.size
                if num_bytes > request["max_bytes"] or num_files > request["max_files"]:
                    raise RefusedError(
                        f"{path.name} unpacks to more than {request['max_bytes']} bytes or "
                        f"{request['max_files']} files, which is the limit."
                    )
                _unpack(archive, member, target)
        return path.name, b""

    def _read(self, request: Mapping[str, Any], _: bytes) -> tuple[str, bytes]:
        path, most = self._root / request["path"], request["max_bytes"]
        kind = path.stat().st_mode
        if stat.S_ISDIR(kind):
            return f"{path.name}.tar.gz", _packed(path.parent, (path.name,), most)
        if not stat.S_ISREG(kind):
            raise RefusedError(f"{request['path']} is neither a file nor a directory.")
        with path.open("rb") as file:
            data = file.read(most + 1)
        if len(data) > most:
            raise RefusedError(
                f"{request['path']} has {path.stat().st_size} bytes; one message carries {most}."
            )
        return path.name, data

    def _pack(self, request: Mapping[str, Any], _: bytes) -> tuple[str, bytes]:
        directory = self._root / request["directory"]
        return directory.name, _packed(directory, request["names"], request["max_bytes"])

    def _remove(self, request: Mapping[str, Any], _: bytes) -> tuple[str, bytes]:
        path = self._root / request["path"]
        with contextlib.suppress(FileNotFoundError):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        return path.name, b""


def _unpack(archive: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    """Unpack a file, a directory or a link beneath a directory, for its owner.

    The filters of `tarfile` do this since Python 3.11.4; Debian 12 has 3.11.2.
    """
    beneath = Path(os.path.realpath(target))
    place = Path(os.path.realpath(beneath / member.name))
    leads_to = place
    if member.issym():
        leads_to = Path(os.path.realpath(beneath / Path(member.name).parent / member.linkname))
    elif member.islnk():
        leads_to = Path(os.path.realpath(beneath / member.linkname))
    elif not (member.isreg() or member.isdir()):
        raise RefusedError(f"{member.name} is neither a file nor a directory nor a link.")
    if not (place.is_relative_to(beneath) and leads_to.is_relative_to(beneath)):
        raise RefusedError(f"{member.name} leads out of the directory that it is unpacked into.")
    archive.extract(member, beneath, set_attrs=False)
    if member.isreg() and member.mode & stat.S_IXUSR:
        (beneath / member.name).chmod(0o755)


def _packed(directory: Path, names: "tuple[str, ...] | list[str]", most: int) -> bytes:
    """Return some of a directory as tar.gz: the same bytes for the same content."""
    target = _Bounded(most)
    with tarfile.open(fileobj=target, mode="w:gz", compresslevel=3) as archive:
        for name in names:
            archive.add(directory / name, arcname=name, filter=_plain)
    return target.getvalue()


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Keep files and directories, without whose they are and when they were made."""
    if not (member.isreg() or member.isdir()):
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


class _Bounded(io.BytesIO):
    """A sink that accepts a limited number of bytes."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def write(self, data: "bytes | memoryview", /) -> int:  # type: ignore[override]
        """Take bytes in; raises `RefusedError` when there are too many."""
        if self.tell() + len(data) > self._most:
            raise RefusedError(f"The archive is larger than {self._most} bytes, which is the most.")
        return super().write(data)


def _story(error: Exception, root: Path) -> str:
    """Return the error message, with paths as the client knows them."""
    if isinstance(error, OSError) and error.filename is not None:
        name = os.fsdecode(error.filename)
        return f"{os.path.relpath(name, root)}: {error.strerror}"
    return str(error) or type(error).__name__


def main() -> int:
    """Serve on an inherited socket."""
    root = Path(sys.argv[2])
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        connection.set_inheritable(False)
        FileServer(root).serve(connection)
    return 0


if __name__ == "__main__":
    sys.exit(main())
