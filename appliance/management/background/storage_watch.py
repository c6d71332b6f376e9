"""Stops admissions before the disk is full or while the database is damaged, and says why.

A thread of its own. Running jobs go on and still have the reserve to write to; waiting jobs are
told the reason. Once there is space again, jobs start by themselves.
"""

import logging
import threading
from collections.abc import Callable
from pathlib import Path

from appliance.core.errors import ClusterError
from appliance.management.store.databases import CHECKED_BYTES
from appliance.management.store.disk import DiskReserve, DiskSpace
from appliance.storage.engine.integrity import RESTORE_HINT, find_damage

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0
"""Between two looks, which cost a system call; a job rarely fills the reserve in that time."""


class StorageWatch:
    """Looks at the disk of the data directory, and once at all of a large SQLite database.

    Args:
        data_dir: The data directory.
        reserve: What must be free there.
        database: The file of the database; None for a server's, which checks its own pages.
        stop: Called with the reason when nothing may be started any more, and with none when jobs
            may again; from this object's thread, but for the first look.
        space_of: Says what a directory's disk has.
    """

    def __init__(
        self,
        data_dir: Path,
        reserve: DiskReserve,
        database: Path | None,
        stop: Callable[[str], None],
        *,
        space_of: Callable[[Path], DiskSpace] = DiskSpace.of,
    ) -> None:
        self._data_dir, self._reserve, self._database = data_dir, reserve, database
        self._stop, self._space_of = stop, space_of
        self._damage, self._shortage = "", ""
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="storage-watch", daemon=True)

    def start(self) -> None:
        """Look once, so that nothing is started on a disk that is full already, and go on so."""
        self.look()
        self._thread.start()

    def close(self) -> None:
        """Stop; a check of the database that is under way is left to itself."""
        self._is_closing.set()
        if self._thread.is_alive():
            self._thread.join(timeout=_LOOK_SECONDS)

    def look(self) -> None:
        """Check the disk, and report a change."""
        try:
            space = self._space_of(self._data_dir)
        except OSError as error:
            shortage = f"the disk of {self._data_dir} does not answer: {error.strerror}"
        else:
            was_short = bool(self._shortage)
            shortage = self._reserve.shortage(space, self._data_dir, was_short=was_short)
        if bool(shortage) != bool(self._shortage):
            self._shortage = shortage
            self._tell()

    def check_database(self) -> None:
        """Look at all of a database that was too large for that when the appliance started."""
        path = self._database
        if path is None or path.stat().st_size <= CHECKED_BYTES:
            return
        if damage := find_damage(path):
            logger.critical(
                "The database is damaged",
                extra={"path": str(path), "what": damage, "next": RESTORE_HINT},
            )
            self._damage = f"the database {path} is damaged: {damage}. {RESTORE_HINT}"
            self._tell()

    def _tell(self) -> None:
        self._stop(self._damage or self._shortage)

    def _run(self) -> None:
        try:
            self.check_database()
        except (ClusterError, OSError) as error:
            logger.warning("The database was not checked", extra={"why": str(error)})
        while not self._is_closing.wait(_LOOK_SECONDS):
            self.look()
