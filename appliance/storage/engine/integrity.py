"""Checks whether a SQLite file is usable, and reports damage in a sentence with the next step.

SQLite itself finds damage only where it happens to read, and then says so in its own words. So the
file is looked at before SQLite opens it, and what SQLite refuses later is translated here.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from sqlalchemy.exc import DBAPIError

from appliance.core.errors import ClusterError, InternalError

RESTORE_HINT = (
    "Restore the newest backup with `appliance restore FILE`; without one, move the file away to "
    "begin with an empty appliance."
)

_MAGIC = b"SQLite format 3\x00"
_DAMAGE = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_FORMAT")
_NO_WRITES = ("SQLITE_READONLY", "SQLITE_PERM", "SQLITE_CANTOPEN", "SQLITE_AUTH")


def check_file(path: Path) -> None:
    """Refuse a file that SQLite could not use, or would silently take for a new database.

    Raises:
        ClusterError: There is such a file.
    """
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise cannot_write(path, "its directory takes no new files")
    try:
        with path.open("rb") as file:
            head = file.read(len(_MAGIC))
    except OSError as error:
        raise cannot_write(path, error.strerror or str(error)) from error
    if not head:
        # A new database gets its name once it has its schema, so that none is ever empty.
        raise ClusterError(
            f"The database {path} is empty (0 bytes): what it held is lost.", hint=RESTORE_HINT
        )
    if head != _MAGIC:
        raise damaged(path, "it does not begin as a SQLite database does")
    if not os.access(path, os.W_OK):
        raise cannot_write(path, "the file is read-only")


def find_damage(path: Path) -> str:
    """Look at every page of a database, some 500 MB a second; others may use it meanwhile.

    Returns:
        What is damaged, in SQLite's words; nothing if it is sound.

    Raises:
        ClusterError: It cannot be read.
    """
    try:
        with closing(sqlite3.connect(path)) as connection:
            (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.DatabaseError as error:
        if not error.sqlite_errorname.startswith(_DAMAGE):
            raise sentence_of(error, path) from error
        return str(error)
    return "" if found == "ok" else " ".join(found.split())


def damaged(path: Path, what: str) -> ClusterError:
    """Return the error that says that a database is damaged."""
    return ClusterError(f"The database {path} is damaged: {what}.", hint=RESTORE_HINT)


def sentence_of(error: sqlite3.Error, path: Path) -> ClusterError | InternalError:
    """Return what SQLite refuses as a sentence with the next step."""
    name = getattr(error, "sqlite_errorname", "")  # absent where the driver itself complains
    if name.startswith(_DAMAGE):
        return damaged(path, str(error))
    if name.startswith(_NO_WRITES):
        return cannot_write(path, str(error))
    if name == "SQLITE_FULL":
        return ClusterError(
            f"The database {path} cannot grow: its disk has {_free_bytes(path):,} bytes free.",
            hint="Free some space there; nothing that was kept is lost.",
        )
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return ClusterError(
            f"The database {path} is held by another program.",
            hint=f"`fuser {path}` names it.",
        )
    if name.startswith("SQLITE_IOERR"):
        return ClusterError(
            f"The database {path} cannot be read or written: {error} ({name}); its disk has "
            f"{_free_bytes(path):,} bytes free.",
            hint="See the system's log for trouble with that disk (`dmesg`).",
        )
    return InternalError(f"The database {path} refuses a statement of ours: {error} ({name}).")


@contextmanager
def in_sentences(path: Path) -> Iterator[None]:
    """Translate SQLite's errors in the block into sentences.

    Raises:
        ClusterError: SQLite cannot use the file.
    """
    try:
        yield
    except sqlite3.Error as error:
        raise sentence_of(error, path) from error
    except DBAPIError as error:
        if not isinstance(error.orig, sqlite3.Error):
            raise
        raise sentence_of(error.orig, path) from error


def cannot_write(path: Path, why: str) -> ClusterError:
    """Return the error that says that a database cannot be written to."""
    return ClusterError(
        f"The database {path} cannot be written to: {why}.",
        hint=f"Let the user with uid {os.geteuid()} write to {path.parent} and all in it, on a "
        "disk that is mounted for writing, or give another --data-dir.",
    )


def _free_bytes(path: Path) -> int:
    status = os.statvfs(path.parent)
    return status.f_bavail * status.f_frsize
