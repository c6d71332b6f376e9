"""The cache of compiled programs, by their inputs.

The client names a program by a hash of its sources and options, before it sends the options. The
hash is not trusted: a program is stored for all users only if sources and options have that hash,
else for its user alone. The key holds the digests of the files by name, and of the compiler.
"""

import hashlib
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

import appliance.csl
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
        for owner in ("", str(self._user)):
            path = self._path(upload, owner)
            with suppress(FileNotFoundError):
                data = path.read_bytes()
                os.utime(path)
                return data
        return None

    def keep(self, upload: Upload, options: Sequence[str], data: bytes) -> None:
        """Store a compiled program, for all users if its hash is right."""
        owner = "" if _hash_of(upload, options) == upload.target else str(self._user)
        path = self._path(upload, owner)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        try:
            descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            partial.rename(path)
        finally:
            partial.unlink(missing_ok=True)
        self._shrink()

    def _path(self, upload: Upload, owner: str) -> Path:
        told = "\0".join((upload.target, upload.identity, compiler_digest(), owner))
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


def _hash_of(upload: Upload, options: Sequence[str]) -> str:
    """Return the name that the client gives a program."""
    contents = upload.contents.copy()
    contents.update(" ".join(options).encode())
    return f"cs_{contents.hexdigest()}"


@cache
def compiler_digest() -> str:
    """Return what differs between compilers: their source."""
    digest = hashlib.sha256()
    root = Path(appliance.csl.__file__).parent
    for path in sorted([*root.rglob("*.py"), *root.rglob("*.csl")]):
        digest.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return digest.hexdigest()
