"""The records of gangs: a directory for each on the data volume, which every management mounts.

    JOB/gang.json             the pods to create, and when their launch was written down
    JOB/started               when they were let start
    JOB/stop, JOB/stopped     they are to end; they have ended
    JOB/pods/MEMBER/          mounted by that pod alone: its spec, files of management's own, and
                              `start`, which hints that it may run

A directory without `gang.json` is a launch that was cut off, of which nothing runs. Markers are
only ever added, so two managements, of which one has just lost its lead, cannot undo each other's.
Specs hold the keys of the job's streams: they are in no object of the Kubernetes API.
"""

import datetime as dt
import json
import logging
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from appliance.cluster.kubernetes.gangs import Gang, Progress
from appliance.cluster.kubernetes.manifests import START_FILE, pod_directory
from appliance.cluster.kubernetes.object_kinds import Resource, name_of
from appliance.core.ids import JobId
from appliance.files.kept_files import replace_file

logger = logging.getLogger(__name__)

_GANG, _STARTED, _STOP, _STOPPED = "gang.json", "started", "stop", "stopped"
_DIRECTORY_MODE, _FILE_MODE = 0o2750, 0o640


class GangRecords:
    """The records of the gangs of one namespace.

    Args:
        root: Where they are, on the data volume.
        group_id: Group of the pods.
    """

    def __init__(self, root: Path, group_id: int) -> None:
        self._root, self._group_id = root, group_id

    def load(self) -> Mapping[JobId, Gang | None]:
        """Return all gangs, None for one whose record is damaged; clear away what was cut off."""
        found: dict[JobId, Gang | None] = {}
        for directory in sorted(self._root.iterdir()) if self._root.is_dir() else ():
            job = JobId(directory.name)
            if (directory / _GANG).exists():
                found[job] = gang = _read(directory)
                if gang is not None and gang.progress is Progress.STARTED:
                    self._hint(job)  # it may have been written down, and no more
            else:
                self.remove(job)
        return found

    def write(
        self,
        job: JobId,
        manifests: Sequence[Resource],
        files: Mapping[str, Mapping[str, bytes]],
        *,
        launched_at: dt.datetime,
    ) -> Gang:
        """Write down that a gang is to be launched, in place of what was cut off before.

        Args:
            job: Whose it is.
            manifests: The pods, as they are to be created.
            files: What each pod finds in its directory, by member and name.
            launched_at: Now.

        Raises:
            OSError: The data volume does not take it.
        """
        self.remove(job)
        for member, contents in files.items():
            directory = pod_directory(self._root, job, member)
            self._make(directory)
            for name, data in contents.items():
                self._put(directory / name, data, outlasts=False)
        whole = {"launched": launched_at.isoformat(), "pods": list(manifests)}
        self._make(self._root / job)
        self._put(self._root / job / _GANG, json.dumps(whole).encode())
        return _gang(job, whole, Progress.PLACING, None)

    def start(self, gang: Gang, now: dt.datetime) -> Gang:
        """Write down that the pods of a gang may start, and hint it to each."""
        self._mark(gang, _STARTED, now.isoformat())
        self._hint(gang.job)
        return replace(gang, progress=Progress.STARTED, started_at=now)

    def stop(self, gang: Gang) -> Gang:
        """Write down that the pods of a gang are to end."""
        self._mark(gang, _STOP)
        return replace(gang, progress=Progress.STOPPING)

    def end(self, gang: Gang) -> Gang:
        """Write down that the pods of a gang have ended."""
        self._mark(gang, _STOPPED)
        return replace(gang, progress=Progress.STOPPED)

    def remove(self, job: JobId) -> None:
        """Remove the record of a gang, whatever there is of it."""
        directory = self._root / job
        (directory / _GANG).unlink(missing_ok=True)  # first: what then remains was cut off
        shutil.rmtree(directory, ignore_errors=True)

    def _hint(self, job: JobId) -> None:
        """Tell each pod that it may start."""
        for directory in sorted(pod_directory(self._root, job, "").glob("*")):
            self._put(directory / START_FILE, b"1", outlasts=False)

    def _mark(self, gang: Gang, name: str, text: str = "1") -> None:
        self._make(self._root / gang.job)  # unless somebody has removed the record
        self._put(self._root / gang.job / name, text.encode())

    def _make(self, directory: Path) -> None:
        if not directory.is_dir():
            self._make(directory.parent)
            directory.mkdir(exist_ok=True)
            self._share(directory, _DIRECTORY_MODE)

    def _put(self, path: Path, data: bytes, *, outlasts: bool = True) -> None:
        replace_file(path, data, mode=_FILE_MODE, outlasts=outlasts)
        self._share(path, _FILE_MODE)

    def _share(self, path: Path, mode: int) -> None:
        """Let the group of the pods read; management owns what it makes, and is in that group."""
        if path.stat().st_gid != self._group_id and os.geteuid() == 0:
            os.chown(path, -1, self._group_id)
        path.chmod(mode)


def _read(directory: Path) -> Gang | None:
    try:
        whole = json.loads((directory / _GANG).read_text())
        started = directory / _STARTED
        started_at = dt.datetime.fromisoformat(started.read_text()) if started.exists() else None
        return _gang(JobId(directory.name), whole, _progress(directory), started_at)
    except (OSError, KeyError, ValueError, TypeError):
        logger.exception("Record of a gang is damaged", extra={"job": directory.name})
        return None


def _progress(directory: Path) -> Progress:
    if (directory / _STOPPED).exists():
        return Progress.STOPPED
    if (directory / _STOP).exists():
        return Progress.STOPPING
    return Progress.STARTED if (directory / _STARTED).exists() else Progress.PLACING


def _gang(job: JobId, whole: Resource, progress: Progress, started_at: dt.datetime | None) -> Gang:
    return Gang(
        job=job,
        progress=progress,
        manifests={name_of(each): each for each in whole["pods"]},
        launched_at=dt.datetime.fromisoformat(whole["launched"]),
        started_at=started_at,
    )
