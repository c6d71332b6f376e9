"""Which database an appliance uses: a file of its data directory, or a server's.

An appliance that starts with a server's database stores its URL in the data directory, readable by
its owner alone, so that `appliance token` and `appliance user` change the same state.
"""

import asyncio
import contextlib
import logging
from pathlib import Path

from sqlalchemy.exc import ArgumentError, NoSuchModuleError, OperationalError

from appliance.core.errors import ClusterError, UserError
from appliance.files.kept_files import read_sealed, replace_file, sealed
from appliance.management.store.keys import STREAMS
from appliance.storage.engine.database import Database
from appliance.storage.engine.integrity import check_file, damaged, find_damage

logger = logging.getLogger(__name__)

CHECKED_BYTES = 32 << 20
"""A start looks for damage in a file of up to so much, which takes some 60 ms; `storage_watch`
looks at a larger one, beside what is served."""

UNFINISHED = "restore.unfinished"
"""Name, in the data directory, of what a restore is about to put in place; while it is there, the
appliance does not start."""

_LOOK_SECONDS = 1.0
_SQLITE_FILE = "state.db"
_SQLITE_URL = "sqlite:///"
_URL_FILE = "database.url"


def open_own_database(data_dir: Path, url: str) -> Database:
    """Open the database of an appliance that starts, and leave word of it.

    Args:
        data_dir: Its data directory.
        url: SQLAlchemy URL; empty for a SQLite file in the data directory.

    Raises:
        UserError: The URL is none.
        ClusterError: Nobody answers there; or the file is damaged, lost, or cannot be written to.
    """
    if (data_dir / UNFINISHED).exists():
        raise ClusterError(
            f"A restore into {data_dir} was begun and not finished.",
            hint="Repeat it: `appliance restore FILE --replace`.",
        )
    if (path := sqlite_path(data_dir, url)) is not None:
        _check(path, data_dir, has_note=(data_dir / _URL_FILE).exists())
    database = _open(data_dir, url)
    keep_url(data_dir, url)
    return database


def keep_url(data_dir: Path, url: str) -> None:
    """Leave word of the database that is used, for its owner alone; see `kept_url`."""
    note = data_dir / _URL_FILE
    if not url:
        note.unlink(missing_ok=True)
        return
    replace_file(note, sealed(url.encode()))


def kept_url(data_dir: Path) -> str:
    """Return the URL that the last start was with; empty for the file in the data directory.

    Raises:
        ClusterError: It is not what was written, and could name another database.
    """
    hint = "Name the database with --database, or start the appliance again, which writes the file."
    what = "the URL of the database"
    try:
        return read_sealed(data_dir / _URL_FILE, what=what, hint=hint).decode()
    except FileNotFoundError:
        return ""


async def await_database(url: str, is_ended: asyncio.Event, *, seconds: float) -> bool:
    """Wait for a server's database: beside management, as in a cluster, it may start later.

    Args:
        url: SQLAlchemy URL.
        is_ended: Set when nobody waits any longer.
        seconds: For so long.

    Returns:
        Whether it answers; False if the wait was ended before.

    Raises:
        UserError: The URL is none.
        ClusterError: It has not answered in all that time.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while not is_ended.is_set():
        try:
            database = await asyncio.to_thread(_open, Path(), url)
        except ClusterError as error:
            if loop.time() >= deadline:
                raise
            logger.warning("The database does not answer yet", extra={"why": str(error)})
        else:
            database.close()
            return True
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(is_ended.wait(), _LOOK_SECONDS)
    return False


def open_kept_database(data_dir: Path, url: str = "") -> Database:
    """Open the database of the appliance of a data directory, whether it runs or not.

    Args:
        data_dir: The data directory.
        url: SQLAlchemy URL; empty for the one that the appliance was started with last.

    Raises:
        UserError: The URL is none.
        ClusterError: Nobody answers there.
    """
    return _open(data_dir, url or kept_url(data_dir))


def sqlite_path(data_dir: Path, url: str) -> Path | None:
    """Return the file that a database is in; None for a server's."""
    if not url:
        return data_dir / _SQLITE_FILE
    return Path(url.removeprefix(_SQLITE_URL)) if url.startswith(_SQLITE_URL) else None


def _check(path: Path, data_dir: Path, *, has_note: bool) -> None:
    """Refuse a file that is lost or damaged.

    Args:
        path: The file.
        data_dir: The data directory.
        has_note: Whether the last start was with a server's database.
    """
    if path.exists():
        check_file(path)
        if path.stat().st_size <= CHECKED_BYTES and (what := find_damage(path)):
            raise damaged(path, what)
    elif path.parent == data_dir and (data_dir / STREAMS.name).exists() and not has_note:
        raise ClusterError(
            f"The database {path} is gone, and {data_dir} is of an appliance that has run before.",
            hint="Restore the newest backup with `appliance restore FILE`; to begin with an empty "
            f"appliance, move {data_dir} away.",
        )


def _open(data_dir: Path, url: str) -> Database:
    path = sqlite_path(data_dir, url)
    return _open_server(url) if path is None else Database.open_sqlite(path)


def _open_server(url: str) -> Database:
    try:
        return Database.open(url)
    except (ArgumentError, NoSuchModuleError) as error:
        raise UserError(
            "The database's URL is not understood.",
            hint="Write postgresql+psycopg://USER@HOST/NAME, and leave the password to PGPASSFILE.",
        ) from error
    except OperationalError as error:
        raise ClusterError(
            f"The database cannot be opened: {error.orig}.",
            hint="See that the server runs and knows the user and the database.",
        ) from error
