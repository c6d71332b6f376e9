"""The client's files: uploads and downloads.

Names that the client sends become paths beneath the job's directory or are refused; a program of
the user writes and reads the files (`appliance.sdk.servers.file_server`).
"""

import hashlib
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from appliance.core.errors import UserError
from appliance.files.beneath import Beneath
from appliance.sdk.servers.frames import MAX_FILE_BYTES
from protos.sdk.sdk_appliance_pb2 import SdkArtifactsArgs
from workers.sdk.child import Child
from workers.sdk.errors import SdkError, file_error
from workers.sdk.options import SdkLimits
from workers.sdk.programs import Programs

_ARCHIVE = ".tar.gz"
_SOURCES = "sources"
_MAX_NAME = 255


@dataclass(slots=True, kw_only=True)
class Upload:
    """What one call has brought.

    Attributes:
        target: What the files belong to: the hash of a program, or the id of an artifact.
        is_source: Whether they are sources to be compiled.
        names: Names of the files, in the order in which they came.
        contents: Digest of the contents in that order, as the client makes it.
        identity: Digest of names and contents.
    """

    target: str = ""
    is_source: bool = False
    names: list[str] = field(default_factory=list)
    contents: "hashlib._Hash" = field(default_factory=hashlib.sha256)
    digests: dict[str, bytes] = field(default_factory=dict)

    @property
    def identity(self) -> str:
        """Digest of the files by their names, whatever their order."""
        whole = hashlib.sha256()
        for name, digest in sorted(self.digests.items()):
            whole.update(f"{len(name.encode())} {name} ".encode() + digest)
        return whole.hexdigest()


class JobFiles:
    """The files of one job.

    Args:
        programs: Starts the program that reads and writes them.
        limits: How much the client may send and fetch.
    """

    def __init__(self, programs: Programs, limits: SdkLimits) -> None:
        self._programs, self._limits = programs, limits
        self._root = programs.files
        self._lock = threading.Lock()
        self._child: Child | None = None
        self._num_bytes = self._num_files = 0

    def close(self, reason: str) -> None:
        """End the program that reads and writes the files."""
        with self._lock:
            child = self._child
        if child is not None:
            child.close(reason)

    def take(self, messages: Iterable[SdkArtifactsArgs]) -> Upload:
        """Write what a client sends; archives of artifacts and directories are unpacked.

        Raises:
            SdkError: A name leads out, there is too much, or something cannot be written.
        """
        upload = Upload()
        last, hasher = "", hashlib.sha256()
        for message in messages:
            path = self._path_of(message, upload)
            is_new = message.file_name != last
            if is_new:
                hasher = hashlib.sha256()
                upload.names.append(message.file_name)
            self._count(message, is_new=is_new)
            request = {"op": "write", "path": path, "append": not is_new}
            self._ask(request, message.data_chunk)
            upload.contents.update(message.data_chunk)
            hasher.update(message.data_chunk)
            upload.digests[message.file_name] = hasher.digest()
            last = message.file_name
        for name in upload.names:
            if not upload.is_source and name.endswith(_ARCHIVE):
                self._unpack(upload.target, name)
        return upload

    def sources(self, target: str) -> Path:
        """Return the directory with the sources of a program."""
        return self._root / self._relative(f"{_SOURCES}/{target}")

    def artifact(self, target: str) -> Path:
        """Return the directory that an artifact was unpacked in; raises `SdkError` without one."""
        directory = self._root / self._relative(target)
        if not target or not directory.is_dir():
            raise file_error(f"There is no artifact {target!r} in this job; upload it first.")
        return directory

    def read(self, name: str) -> tuple[str, bytes]:
        """Return a file's or a directory's name for the client, and its bytes.

        Raises:
            SdkError: It is not there, or too large.
        """
        request = {
            "op": "read",
            "path": self._relative(name),
            "max_bytes": self._limits.message_bytes,
        }
        return self._ask(request)

    def read_left(self, name: str, max_bytes: int) -> bytes:
        """Return a file that the job's programs have left; `SdkError` if it is larger."""
        path = self._relative(name)
        return self._ask({"op": "read", "path": path, "max_bytes": max_bytes})[1]

    def pack(self, target: str, names: Sequence[str]) -> bytes:
        """Return some of what lies beside a program's sources as one archive."""
        directory = self._relative(f"{_SOURCES}/{target}")
        most = self._limits.message_bytes
        request = {"op": "pack", "directory": directory, "names": names, "max_bytes": most}
        return self._ask(request)[1]

    def write_beside_sources(self, target: str, name: str, data: bytes) -> None:
        """Write a file of ours beside a program's sources."""
        path = self._relative(f"{_SOURCES}/{target}/{name}")
        self._ask({"op": "write", "path": path, "append": False}, data)

    def _path_of(self, message: SdkArtifactsArgs, upload: Upload) -> str:
        if not upload.target:
            upload.target = message.compile_hash
            upload.is_source = message.mode == "SDK_COMPILE"
        if not _is_name(message.compile_hash) or message.compile_hash != upload.target:
            raise file_error(f"{message.compile_hash!r} is no name of a program or artifact.")
        parts = [_SOURCES] if upload.is_source else []
        parts += [upload.target, message.file_name]
        if not message.file_name or message.file_name.startswith("/"):
            raise file_error(f"{message.file_name!r} is no relative name of a file.")
        return self._relative("/".join(parts))

    def _count(self, message: SdkArtifactsArgs, *, is_new: bool) -> None:
        limits = self._limits
        with self._lock:
            self._num_bytes += len(message.data_chunk)
            self._num_files += is_new
            num_bytes, num_files = self._num_bytes, self._num_files
        if num_bytes > limits.upload_bytes:
            raise file_error(
                f"This job's uploads come to {num_bytes} bytes with {message.file_name!r}; "
                f"{limits.upload_bytes} are the most."
            )
        if num_files > limits.upload_files:
            raise file_error(f"This job's uploads are more than {limits.upload_files} files.")

    def _unpack(self, target: str, name: str) -> None:
        path = PurePosixPath(self._relative(f"{target}/{name}"))
        request = {
            "op": "extract",
            "path": str(path),
            "into": str(path.parent),
            "max_bytes": self._limits.unpacked_bytes,
            "max_files": self._limits.unpacked_files,
        }
        self._ask(request)

    def _relative(self, text: str) -> str:
        try:
            found = Beneath.parse(text, self._root, what="file name")
        except UserError as error:
            raise file_error(str(error)) from error
        if PurePosixPath(text).is_absolute() or not found.parts:
            raise file_error(f"{text!r} is no relative name of a file.")
        return "/".join(found.parts)

    # `dict`: a request of `appliance.sdk.servers.file_server`.
    def _ask(self, request: dict[str, object], payload: bytes = b"") -> tuple[str, bytes]:
        try:
            answer = self._server().ask(request, payload)
        except SdkError as error:
            raise file_error(error.message) from error
        return str(answer.header["name"]), answer.payload

    def _server(self) -> Child:
        with self._lock:
            if self._child is None:
                self._child = Child(
                    self._programs,
                    "appliance.sdk.servers.file_server",
                    str(self._root),
                    directory=self._root,
                    max_payload_bytes=MAX_FILE_BYTES,
                )
            return self._child


def _is_name(text: str) -> bool:
    """Whether a text can be the name of one directory, and is not that of the sources'."""
    plain = text.replace("-", "").replace("_", "").replace(".", "")
    is_plain = plain.isascii() and plain.isalnum() and not text.startswith(".")
    return is_plain and len(text) <= _MAX_NAME and text != _SOURCES
