"""What we make is ours alone, and so is what we find where we keep it."""

import logging
import os
import stat
from pathlib import Path

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
