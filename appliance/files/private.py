"""What we make is ours alone, and so is what we find where we keep it."""

import contextlib
import logging
import os
import stat
from io import FileIO
from pathlib import Path

from appliance.core.errors import UserError

logger = logging.getLogger(__name__)

_OTHERS, _GROUP_AND_OTHERS = 0o007, 0o077


def keep_private(*, shares_with_group: bool = False) -> None:
    """Let everything that this process and its children make be closed to others.

    That goes for sockets too: who may not write to one cannot connect.

    Args:
        shares_with_group: Whether pods on other nodes, which write to the same directories, have
            users of their own in our group.
    """
    os.umask(_OTHERS if shares_with_group else _GROUP_AND_OTHERS)


def make_private(directory: Path) -> None:
    """Make a directory for ourselves; one that is there is closed to others.

    A directory that hands its group on to what is made in it (setgid), as volumes of Kubernetes do,
    stays open to that group.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = directory.stat()
    mode = stat.S_IMODE(status.st_mode)
    closed = mode & ~(_OTHERS if mode & stat.S_ISGID else _GROUP_AND_OTHERS)
    if status.st_uid not in (os.geteuid(), 0):
        logger.warning(
            "A directory of ours belongs to somebody else, who can read all that is in it",
            extra={"path": str(directory), "uid": status.st_uid},
        )
    if closed == mode:
        return
    try:
        directory.chmod(closed)
    except PermissionError:
        logger.warning(
            "A directory of ours is open to others, and only its owner can close it",
            extra={"path": str(directory), "mode": f"{mode:o}", "uid": status.st_uid},
        )
    else:
        logger.info(
            "A directory was open to others and is closed now",
            extra={"path": str(directory), "mode": f"{mode:o}", "closed": f"{closed:o}"},
        )


def make_own(directory: Path) -> None:
    """Make a directory for sockets, in a place like /tmp in which everybody may make some.

    Whoever owns the directory could put sockets of their own into it, and so be taken for us. Our
    names there can be guessed, so what is there already has to be ours.

    Raises:
        UserError: What is there is somebody else's, or no directory.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    try:
        directory.mkdir(mode=0o700)
    except FileExistsError:
        check_own(directory)


def remove_if_empty(directory: Path) -> None:
    """Remove a directory for sockets, unless something in it is still used, or it is gone."""
    with contextlib.suppress(OSError):
        directory.rmdir()


def check_own(directory: Path) -> None:
    """Take a directory only if it is ours, and let nobody else write to it.

    Raises:
        UserError: It is somebody else's, or no directory.
    """
    status = directory.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise UserError(
            f"{directory}, the directory for sockets, is no directory of user {os.geteuid()}: "
            f"user {status.st_uid} has made it.",
            hint="Remove it, or set XDG_RUNTIME_DIR to a directory that is yours alone.",
        )
    if (mode := stat.S_IMODE(status.st_mode)) & 0o022:
        directory.chmod(mode & ~0o022)


def open_log(path: Path) -> FileIO:
    """Open a file to write at its end that nobody else has made, whatever its directory.

    Raises:
        UserError: It is somebody else's, a link, or no file.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        raise UserError(f"{path} cannot be written to: {error.strerror}.") from error
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_nlink > 1:
        os.close(descriptor)
        raise UserError(
            f"{path} is no file of user {os.geteuid()} alone: user {status.st_uid} has made it.",
            hint="Remove it, or set XDG_RUNTIME_DIR to a directory that is yours alone.",
        )
    return FileIO(descriptor, "ab")
