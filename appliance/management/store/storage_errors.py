"""What the disk or the database refused, in words."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.exc import DBAPIError

from appliance.core.errors import ClusterError, WscError
from appliance.management.store.databases import sqlite_path
from appliance.management.store.disk import disk_errors
from appliance.storage.engine.integrity import sentence_of
from appliance.storage.engine.write_failures import is_of_database


@contextmanager
def storage_errors(data_dir: Path, database: str) -> Iterator[None]:
    """Let what the disk or the database refuses in the block leave as a sentence.

    Args:
        data_dir: The data directory.
        database: URL of the database; empty for the file in the data directory.
    """
    with disk_errors(data_dir):
        try:
            yield
        except DBAPIError as error:
            if not is_of_database(error):
                raise
            raise _sentence(error, data_dir, database) from error


def _sentence(error: DBAPIError, data_dir: Path, database: str) -> WscError:
    path = sqlite_path(data_dir, database)
    if path is not None and isinstance(error.orig, sqlite3.Error):
        return sentence_of(error.orig, path)
    return ClusterError(
        f"The database does not do what it is asked: {error.orig}.",
        hint="See that its server runs, has space, and takes writes.",
    )
