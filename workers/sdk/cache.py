"""The cache of compiled programs, by user and by their inputs.

The compiler runs as the job's user, on files that are the user's: between an upload and a compile,
and between a compile and what is read of it, a command of the same job may change them. So nothing
says that a program is what its inputs make, and a user finds only what jobs of their own have
compiled. The key holds the digests of the files by name, the client's hash of sources and options,
and the digest of the compiler.
"""

import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import appliance.csl
from appliance.files.kept_files import find_unsealed, replace_file, sealed
from workers.sdk.files import Upload

_SUFFIX = ".tar.gz"


class ProgramCache:
    """The compiled programs below one directory.

    Args:
        root: The directory; it is ours alone.
        user: Id of the user whose job looks; None where nobody is named.
        max_bytes: Bytes of all programs; those used longest ago go first.
    """

    def __init__(self, root: Path, user: int | None, max_bytes: int) -> None:
        self._root, self._user, self._max_bytes = root, user, max_bytes

    def find(self, upload: Upload) -> bytes | None:
        """Return a compiled program of these sources by the client's hash; None without one."""
        path = self._path(upload)
        with suppress(FileNotFoundError):
            data = find_unsealed(path.read_bytes())
            if data is None:  # what a disk has damaged is compiled again
                path.unlink()
                return None
            os.utime(path)
            return data
        return None

    def keep(self, upload: Upload, data: bytes) -> None:
        """Store a compiled program for its user."""
        path = self._path(upload)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        replace_file(path, sealed(data))
        self._shrink()

    def _path(self, upload: Upload) -> Path:
        told = "\0".join((upload.target, upload.identity, compiler_digest(), str(self._user)))
        return self._root / (hashlib.sha256(told.encode()).hexdigest() + _SUFFIX)

    def _shrink(self) -> None:
        found = sorted(self._entries(), reverse=True)
        total = 0
        for _, num_bytes, path in found:
            total += num_bytes
            if total > self._max_bytes:
                path.unlink(missing_ok=True)

    def _entries(self) -> Iterator[tuple[float, int, Path]]:
        for path in self._root.glob(f"*{_SUFFIX}"):
            with suppress(FileNotFoundError):
                state = path.stat()
                yield state.st_mtime, state.st_size, path


@cache
def compiler_digest() -> str:
    """Return what differs between compilers: their source."""
    digest = hashlib.sha256()
    root = Path(appliance.csl.__file__).parent
    for path in sorted([*root.rglob("*.py"), *root.rglob("*.csl")]):
        digest.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return digest.hexdigest()
