"""Which database an appliance keeps its state in: a file of its data directory, or a server's.

An appliance that starts with a server's database leaves its URL in the data directory, readable by
its owner alone, so that `appliance token` and `appliance user` change the same state.
"""

import asyncio
import contextlib
import logging
import os
from pathlib import Path

from sqlalchemy.exc import ArgumentError, NoSuchModuleError, OperationalError

from appliance.core.errors import ClusterError, UserError
from appliance.storage.database import Database

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0
_SQLITE_FILE = "state.db"
_URL_FILE = "database.url"


def open_own_database(data_dir: Path, url: str) -> Database:
    """Open the database of an appliance that starts, and leave word of it.

    Args:
        data_dir: Its data directory.
        url: SQLAlchemy URL; empty for a SQLite file in the data directory.

    Raises:
        UserError: The URL is none.
        ClusterError: Nobody answers there.
    """
    database = _open(data_dir, url)
    note = data_dir / _URL_FILE
    if not url:
        note.unlink(missing_ok=True)
        return database
    descriptor = os.open(note, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(url)
    return database


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
            database = await asyncio.to_thread(_open_server, url)
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
    note = data_dir / _URL_FILE
    known = note.read_text() if not url and note.exists() else url
    return _open(data_dir, known)


def _open(data_dir: Path, url: str) -> Database:
    return _open_server(url) if url else Database.open_sqlite(data_dir / _SQLITE_FILE)


def _open_server(url: str) -> Database:
    try:
        return Database.open(url)
    except (ArgumentError, NoSuchModuleError) as error:
        raise UserError(
            "The database's URL is not understood.",
            hint="Write postgresql+psycopg://USER:PASSWORD@HOST/NAME.",
        ) from error
    except OperationalError as error:
        raise ClusterError(
            f"The database cannot be opened: {error.orig}.",
            hint="See that the server runs and knows the user and the database.",
        ) from error
