"""Small files that must survive a crash: one way to write them, and one way to read them.

A file is written beside its place, forced to the disk, and renamed, so that a reader finds the old
one or the new one. What came of it later (a disk that lost its end, a copy that was cut short, a
hand that slipped) shows by a *seal*: a last line with the digest of all that precedes it. Whoever
reads takes only a sealed file that nobody but its owner could have written.
"""

import contextlib
import errno
import hashlib
import logging
import os
import secrets
import stat
from pathlib import Path

from appliance.core.errors import ClusterError

logger = logging.getLogger(__name__)

MAX_BYTES = 1 << 20
"""No file that is kept is longer, but a job's request."""

_SEAL = b"\nsha256 "
_SEAL_BYTES = len(_SEAL) + 64 + 1
_OTHERS_MAY_WRITE, _GROUP, _OTHERS = 0o022, 0o070, 0o007
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
_NO_SYNC = (errno.EINVAL, errno.EBADF, errno.EOPNOTSUPP)


def replace_file(path: Path, data: bytes, *, mode: int = 0o600, outlasts: bool = True) -> None:
    """Write a file that is there whole or not at all, also after a crash.

    Args:
        path: Where it goes; what is there is replaced.
        data: What it holds.
        mode: Who may do what with it, less what our umask takes away.
        outlasts: Whether it is forced to the disk, which takes milliseconds; of what can be made
            again only a part may be there after a crash of the machine, so its reader checks it.

    Raises:
        OSError: The disk refuses it; what was there stays.
    """
    draft = _draft(path, data, mode, syncs=outlasts)
    try:
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    if outlasts:
        sync_directory(path.parent)


def create_file(path: Path, data: bytes) -> bool:
    """Write a file of our own as `replace_file` does, unless another process was faster.

    Returns:
        Whether it holds what we have written.

    Raises:
        OSError: The disk refuses it.
    """
    draft = _draft(path, data, 0o600, syncs=True)
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        draft.rename(path)
    finally:
        draft.unlink(missing_ok=True)
    sync_directory(path.parent)
    return True


def sync_directory(directory: Path) -> None:
    """Force the names in a directory to the disk, where the file system knows how."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise
    finally:
        os.close(descriptor)


def sealed(data: bytes) -> bytes:
    """Return what a file holds, with its seal."""
    return data + _SEAL + hashlib.sha256(data).hexdigest().encode() + b"\n"


def find_unsealed(text: bytes) -> bytes | None:
    """Return what `sealed` was given; None if it did not make this."""
    data = text[:-_SEAL_BYTES]
    return data if sealed(data) == text else None


def read_sealed(path: Path, *, what: str, hint: str) -> bytes:
    """Return what was sealed in a file of ours.

    Args:
        path: The file.
        what: What it is, for the error.
        hint: What to do about one that is damaged.

    Raises:
        FileNotFoundError: It is not there.
        ClusterError: It is not what was written, or others could have written or read it.
    """
    text = read_own(path, what=what, hint=hint)
    data = find_unsealed(text)
    if data is None:
        raise damaged(path, what, f"its {len(text)} bytes do not end in their own digest", hint)
    return data


def read_own(path: Path, *, what: str, hint: str, is_secret: bool = True) -> bytes:
    """Return what is in a file that nobody but its owner could have written.

    Its owner is we, root, or whoever owns its directory, who could put another in its place anyway.

    Args:
        path: The file, of at most `MAX_BYTES`.
        what: What it is, for the error.
        hint: What to do about one that cannot be used.
        is_secret: Whether others must not read it; it is then closed to them.

    Raises:
        FileNotFoundError: It is not there.
        ClusterError: It is no such file.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise damaged(path, what, error.strerror or str(error), hint) from error
    try:
        if reason := _why_not(path, os.fstat(descriptor)):
            raise damaged(path, what, reason, hint)
        if is_secret:
            _close_to_others(path, descriptor)
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(MAX_BYTES)
    finally:
        os.close(descriptor)


def damaged(path: Path, what: str, reason: str, hint: str) -> ClusterError:
    """Return the error that says that a file of ours cannot be used."""
    return ClusterError(f"{path}, {what}, cannot be used: {reason}.", hint=hint)


def _why_not(path: Path, status: os.stat_result) -> str:
    """Return why a file is not one of ours; empty if it is."""
    if not stat.S_ISREG(status.st_mode):
        return "it is no ordinary file"
    directory = path.parent.stat()
    if status.st_uid not in (os.geteuid(), 0, directory.st_uid):
        return f"it belongs to user {status.st_uid}"
    if status.st_mode & _OTHERS_MAY_WRITE & ~_shared(directory):
        return f"others may write to it (mode {stat.S_IMODE(status.st_mode):o})"
    if status.st_size > MAX_BYTES:
        return f"it has {status.st_size:,} bytes; one of ours has at most {MAX_BYTES:,}"
    return ""


def _shared(directory: os.stat_result) -> int:
    """Return the bits of a group that files may have: volumes of Kubernetes give them all."""
    return _GROUP if directory.st_mode & stat.S_ISGID else 0


def _close_to_others(path: Path, descriptor: int) -> None:
    mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
    closed = mode & ~(_OTHERS | _GROUP) | mode & _shared(path.parent.stat())
    if closed == mode:
        return
    with contextlib.suppress(PermissionError):  # only its owner can; its directory is closed
        os.fchmod(descriptor, closed)
    logger.warning(
        "A secret file was open to others", extra={"path": str(path), "mode": f"{mode:o}"}
    )


def _draft(path: Path, data: bytes, mode: int, *, syncs: bool) -> Path:
    """Write data beside its place, and force them to the disk on request."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            if syncs:
                file.flush()
                os.fsync(file.fileno())
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    return draft
