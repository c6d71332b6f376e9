"""Log exports: one archive of a job's logs, gathered in the background and fetched page by page.

It unpacks as one of a real cluster does: `log-export-JOB-HASH/POD/dbg_ROLE_N.out`, beside it the
directories `cs_...` of what the compiler left. Source: paths in public notes on such archives.

An archive and its description are two files in the data directory, so that an export outlives a
restart; one that was being gathered then has failed. Exports are removed when they expire.
"""

import datetime as dt
import hashlib
import json
import logging
import os
import re
import secrets
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from threading import Lock

from appliance.coordinator.compile.artifacts import ArtifactStore, CompileCache
from appliance.core.clock import Clock
from appliance.core.cluster.records import JobRecord
from appliance.core.errors import ConflictError, NotFoundError, UserError, WscError
from appliance.core.ids import JobId, Role
from appliance.core.integers import find_integer
from appliance.files.beneath import Beneath, is_file, open_file
from appliance.files.kept_files import find_unsealed, replace_file, sealed
from appliance.management.logs.log_files import kept_from, pieces, size_of, tail_offset
from appliance.management.store.state import State
from appliance.wire.fabric_traces import ARTIFACTS, TRACE_FILE

logger = logging.getLogger(__name__)

PAGE_BYTES = 1 << 20
RETENTION = dt.timedelta(days=7)
"""How long an export is kept unless somebody says otherwise."""
MAX_OF_JOB = 8
"""Archives of one job that are kept; the oldest makes room for the next."""

_MAX_LOG_BYTES = 1 << 30
_ID = re.compile(r"export-[0-9a-f]{16}")
_TASKS = tuple(role.value for role in Role)
_SHORT_ROLES: Mapping[str, str] = {
    Role.COORDINATOR: "crd",
    Role.CHIEF: "chf",
    Role.WEIGHT: "wgt",
    Role.BROADCASTREDUCE: "br",
    Role.ACTIVATION: "act",
    Role.WORKER: "wrk",
}
"""Roles in names of logs; others, which are none of a real cluster, stay as they are."""


class ExportStatus(StrEnum):
    """How far an export is."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRequest:
    """What to gather.

    Attributes:
        job: Whose logs.
        tasks: Only of these roles or pods, as in `coordinator` or `chief-0`; empty for all.
        num_lines: Only so many last lines of each log; 0 for all.
        has_artifacts: What the compiler left, too; of an SDK job also its trace of the fabric.
        has_pod_logs: The pods' logs; without, only events and request.
    """

    job: JobId
    tasks: tuple[str, ...] = ()
    num_lines: int = 0
    has_artifacts: bool = False
    has_pod_logs: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """An export as stored.

    Attributes:
        job: Whose logs.
        status: How far it is.
        detail: What was gathered, or why not.
        num_bytes: Size of the archive.
        signature: SHA-256 of the archive, in hexadecimal digits.
        kept_until: When it is removed, in ISO format.
    """

    id: str
    job: str
    status: ExportStatus
    detail: str
    num_bytes: int
    signature: str
    kept_until: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A part of an archive.

    Attributes:
        data: The part.
        next_token: Asks for the next; empty at the end.
        remaining_bytes: How much is left.
        signature: SHA-256 of the whole archive.
    """

    data: bytes
    next_token: str
    remaining_bytes: int
    signature: str


class LogExports:
    """All log exports.

    Args:
        state: Where jobs and events are.
        directory: Keeps the archives.
        clock: Tells which exports are over.
        compile_cache: Where artifacts are.
    """

    def __init__(
        self, state: State, directory: Path, clock: Clock, *, compile_cache: CompileCache
    ) -> None:
        self._compile_cache = compile_cache
        self._state = state
        self._directory = directory
        self._clock = clock
        self._lock = Lock()
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="log-export")
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._fail_interrupted()

    def close(self) -> None:
        """Give up on exports that have not begun."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def create(self, request: ExportRequest) -> Export:
        """Begin to gather.

        Raises:
            NotFoundError: There is no such job.
            UserError: There is no such role.
            NotFoundError: It is to hold what is gone, or the job's user has not compiled.
        """
        job = self._state.jobs.load(request.job)
        for task in request.tasks:
            if re.sub(r"-\d+$", "", task) not in _TASKS:
                raise UserError(
                    f"There are no pods of role {task!r}.",
                    hint=f"Roles are {', '.join(_TASKS)}, and pods of them chief-0 and so on.",
                )
        list(self._artifacts(job, request))  # what cannot be gathered is refused at once
        with self._lock:
            self._remove_old()
            self._make_room(job.id)
        export = Export(
            id=f"export-{secrets.token_hex(8)}",
            job=job.id,
            status=ExportStatus.RUNNING,
            detail="gathering",
            num_bytes=0,
            signature="",
            kept_until=(self._clock.now() + RETENTION).isoformat(),
        )
        self._keep(export)
        self._pool.submit(self._gather, export, job, request)
        return export

    def load(self, export_id: str) -> Export:
        """Return an export; raises `NotFoundError`."""
        found = self._find(export_id) if _ID.fullmatch(export_id) else None
        if found is None:
            raise NotFoundError(
                f"There is no export {export_id!r}; it may have been removed after its time.",
                hint="Make another with `csctl log-export JOB`.",
            )
        return found

    def job_of(self, export_id: str) -> JobId:
        """Return of which job an export is; raises `NotFoundError`."""
        return JobId(self.load(export_id).job)

    def page(self, export_id: str, token: str) -> Page:
        """Return one page of an archive.

        Args:
            token: From the page before; empty for the first.

        Raises:
            NotFoundError: There is no such export.
            ConflictError: It is not completed.
            UserError: The token is none of ours.
        """
        export = self.load(export_id)
        archive = self.archive_of(export)
        offset = find_integer(token or "0", export.num_bytes)
        if offset is None:
            raise UserError(f"{token[:80]!r} is no page of export {export_id}.")
        with archive.open("rb") as file:
            file.seek(offset)
            data = file.read(PAGE_BYTES)
        end = offset + len(data)
        return Page(
            data=data,
            next_token=str(end) if end < export.num_bytes else "",
            remaining_bytes=export.num_bytes - end,
            signature=export.signature,
        )

    def archive_of(self, export: Export) -> Path:
        """Return where the archive of an export is; raises `ConflictError` if it is not there."""
        if export.status is not ExportStatus.COMPLETED:
            raise ConflictError(f"Export {export.id} is {export.status.value}: {export.detail}.")
        return self._archive(export.id)

    def keep_until(self, export_id: str, until: dt.datetime) -> Export:
        """Change when an export expires.

        Raises:
            NotFoundError: There is no such export.
            UserError: The time is over.
        """
        if until <= self._clock.now():
            raise UserError(f"Export {export_id} cannot be kept until {until.isoformat()}: over.")
        return self._change(export_id, kept_until=until.isoformat())

    def _gather(self, export: Export, job: JobRecord, request: ExportRequest) -> None:
        archive = self._archive(export.id)
        try:
            root = f"log-export-{job.id}-{export.id.removeprefix('export-')[:8]}"
            count = self._write_archive(archive, root, job, request)
        except (OSError, WscError) as error:
            logger.exception("Log export failed", extra={"job": job.id, "export": export.id})
            self._change(export.id, status=ExportStatus.FAILED, detail=str(error))
            return
        with archive.open("rb") as file:
            signature = hashlib.file_digest(file, "sha256").hexdigest()
        self._change(
            export.id,
            status=ExportStatus.COMPLETED,
            detail=f"{count} file(s)",
            num_bytes=archive.stat().st_size,
            signature=signature,
        )

    def _change(self, export_id: str, **fields: str | int | ExportStatus) -> Export:
        with self._lock:  # gathering and a change of its time may meet
            export = replace(self.load(export_id), **fields)  # type: ignore[arg-type]  # by name
            self._keep(export)
        return export

    def _write_archive(self, path: Path, root: str, job: JobRecord, request: ExportRequest) -> int:
        count = 1
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            lines = (
                f"{event.at.isoformat()} {event.reason} {event.subject}: {event.message}\n"
                for event in self._state.jobs.events(job.id)
            )
            archive.writestr(f"{root}/events.txt", "".join(lines))
            for source in _logs(job, request):
                name = f"{root}/{_place_of_log(source.parts[-1])}"
                _pack_log(archive, name, source.path, request)
                count += 1
            for source in self._artifacts(job, request):
                _pack(archive, "/".join((root, *source.parts[-2:])), source)
                count += 1
        return count

    def _artifacts(self, job: JobRecord, request: ExportRequest) -> Iterator[Beneath]:
        if not request.has_artifacts:
            return
        if job.artifact_dir:
            root = self._compile_cache.root_of(job.user.uid)
            yield from ArtifactStore(root, job.user.uid).files(job.artifact_dir)
        if job.type.is_sdk:
            yield from _sdk_artifacts(job)

    def _find(self, export_id: str) -> Export | None:
        """Return an export; None if there is none, or what is known of it is damaged."""
        try:
            text = find_unsealed((self._directory / f"{export_id}.json").read_bytes())
        except FileNotFoundError:
            return None
        if text is None:
            logger.warning("A log export is damaged", extra={"export": export_id})
            return None
        fields = json.loads(text)
        return Export(**{**fields, "status": ExportStatus(fields["status"])})

    def _all(self) -> Iterator[tuple[Path, Export]]:
        """Yield every export with its file; what is damaged is removed."""
        for path in self._directory.glob("export-*.json"):
            if (export := self._find(path.stem)) is not None:
                yield path, export
            else:
                self._remove(path.stem)

    def _remove(self, export_id: str) -> None:
        self._archive(export_id).unlink(missing_ok=True)
        (self._directory / f"{export_id}.json").unlink(missing_ok=True)

    def _fail_interrupted(self) -> None:
        for _, export in self._all():
            if export.status is ExportStatus.RUNNING:
                detail = "the appliance was restarted"
                self._keep(replace(export, status=ExportStatus.FAILED, detail=detail))

    def _remove_old(self) -> None:
        for _, export in self._all():
            if dt.datetime.fromisoformat(export.kept_until) <= self._clock.now():
                self._remove(export.id)

    def _make_room(self, job: JobId) -> None:
        """Remove the oldest archives of a job that has many, or raise `ConflictError`."""
        of_job = [(path.stat().st_mtime, each) for path, each in self._all() if each.job == job]
        ended = sorted(
            (age, export.id) for age, export in of_job if export.status is not ExportStatus.RUNNING
        )
        if len(of_job) - len(ended) >= MAX_OF_JOB:
            raise ConflictError(
                f"{MAX_OF_JOB} exports of job {job} are being gathered.", hint="Wait for one."
            )
        for _, export_id in ended[: max(0, len(of_job) + 1 - MAX_OF_JOB)]:
            self._remove(export_id)

    def _archive(self, export_id: str) -> Path:
        return self._directory / f"{export_id}.zip"

    def _keep(self, export: Export) -> None:
        text = json.dumps(asdict(export), indent=1).encode()
        replace_file(self._directory / f"{export.id}.json", sealed(text))


def _place_of_log(name: str) -> str:
    """Return where a log lies in an archive: `chief-0/dbg_chf_0.out` of `chief-0.log`."""
    pod, _, ending = name.partition(".")
    role, _, index = pod.partition("-")
    words = ("dbg", _SHORT_ROLES.get(role, role), index)
    return f"{pod}/{'_'.join(filter(None, words))}.{ending.replace('log', 'out', 1)}"


def _member(name: str, status: os.stat_result) -> zipfile.ZipInfo:
    """Return the entry of a file in an archive, with the time when it was last written, in UTC."""
    at = dt.datetime.fromtimestamp(status.st_mtime, dt.UTC)
    date_time = (at.year, at.month, at.day, at.hour, at.minute, at.second)
    found = zipfile.ZipInfo(name, date_time=date_time)
    found.compress_type = zipfile.ZIP_DEFLATED
    return found


def _pack(archive: zipfile.ZipFile, name: str, source: Beneath) -> None:
    """Put a file into an archive, a piece at a time."""
    with (
        open(open_file(source), "rb") as file,
        archive.open(_member(name, os.fstat(file.fileno())), "w", force_zip64=True) as packed,
    ):
        shutil.copyfileobj(file, packed, PAGE_BYTES)


def _pack_log(archive: zipfile.ZipFile, name: str, path: Path, request: ExportRequest) -> None:
    """Put what is stored of a log, or its last lines, into an archive; the end of a huge one."""
    num = request.num_lines
    start = tail_offset(path, num) if num else kept_from(path)
    start = max(start, size_of(path) - _MAX_LOG_BYTES)
    with archive.open(_member(name, path.stat()), "w", force_zip64=True) as packed:
        for data in pieces(path, start, max_bytes=PAGE_BYTES):
            packed.write(data)


def _sdk_artifacts(job: JobRecord) -> Iterator[Beneath]:
    """Yield the compiled programs of an SDK job, and its trace of the fabric if it has one."""
    work_dir = Beneath(root=Path(job.work_dir), parts=())
    directory = work_dir / ARTIFACTS
    for name in sorted(os.listdir(directory.path)) if directory.path.is_dir() else ():
        if not name.startswith(".") and is_file(directory / name):
            yield directory / name
    if is_file(work_dir / TRACE_FILE):
        yield work_dir / TRACE_FILE


def _logs(job: JobRecord, request: ExportRequest) -> Iterator[Beneath]:
    if not request.has_pod_logs:
        return
    directory = Beneath(root=Path(job.work_dir), parts=("logs",))
    for name in sorted(os.listdir(directory.path)) if directory.path.is_dir() else ():
        pod = name.partition(".")[0]
        tasks = {pod, pod.partition("-")[0]}
        if is_file(directory / name) and (not request.tasks or tasks & set(request.tasks)):
            yield directory / name
