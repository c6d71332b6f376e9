"""Archives of a job's logs."""

import datetime as dt
import hashlib
import io
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from appliance.coordinator.compile.artifacts import CompileCache
from appliance.core.cluster.jobs import JobType
from appliance.core.cluster.records import NewJob, User
from appliance.core.errors import ConflictError, NotFoundError, UserError
from appliance.core.ids import JobId, WorkflowId
from appliance.files.kept_files import find_unsealed, sealed
from appliance.management.logs import log_exports
from appliance.management.logs.log_exports import Export, ExportRequest, ExportStatus, LogExports
from appliance.management.store.state import State
from appliance.storage.engine.database import Database
from tests.support.clock import FakeClock

JOB = JobId("wsjob-a")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def state(tmp_path: Path, clock: FakeClock) -> State:
    """A state with one job that has four logs."""
    state = State.over(Database.open_sqlite(tmp_path / "state.db"), clock)
    state.sessions.ensure()
    state.workflows.ensure(WorkflowId("wflow-a"), session="job-operator", user=User())
    logs = tmp_path / "work" / "logs"
    logs.mkdir(parents=True)
    (logs / "chief-0.log").write_text("one\ntwo\nthree\n")
    (logs / "weight-0.log").write_text("w\n")
    (logs / "initializer.log").write_text("i\n")
    (logs / "streamer-1.log").write_text("s\n")
    state.jobs.create(
        NewJob(
            id=JOB,
            type=JobType.EXECUTE,
            session="job-operator",
            workflow=WorkflowId("wflow-a"),
            user=User(),
            work_dir=str(tmp_path / "work"),
        )
    )
    return state


def exports_of(state: State, tmp_path: Path, clock: FakeClock) -> LogExports:
    return LogExports(
        state, tmp_path / "exports", clock, compile_cache=CompileCache(root=tmp_path / "compile")
    )


def fetch(exports: LogExports, export_id: str) -> tuple[bytes, str]:
    token, data = "", b""
    while True:
        page = exports.page(export_id, token)
        data += page.data
        assert page.remaining_bytes >= 0
        if not page.next_token:
            return data, page.signature
        token = page.next_token


def complete(exports: LogExports) -> Export:
    export = exports.create(ExportRequest(job=JOB))
    exports.close()
    return exports.load(export.id)


def gathered(exports: LogExports, request: ExportRequest) -> dict[str, str]:
    export = exports.create(request)
    exports.close()
    assert exports.load(export.id).status is ExportStatus.COMPLETED
    data, signature = fetch(exports, export.id)
    assert hashlib.sha256(data).hexdigest() == signature
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert all(entry.date_time[0] > 1980 for entry in archive.infolist()), "real times"
        root = f"log-export-{JOB}-{export.id.removeprefix('export-')[:8]}/"
        assert all(name.startswith(root) for name in archive.namelist())
        return {name.removeprefix(root): archive.read(name).decode() for name in archive.namelist()}


def test_an_archive_has_every_log_and_the_events(
    state: State, tmp_path: Path, clock: FakeClock
) -> None:
    found = gathered(exports_of(state, tmp_path, clock), ExportRequest(job=JOB))

    assert "JobQueued" in found.pop("events.txt")
    assert found == {
        "chief-0/dbg_chf_0.out": "one\ntwo\nthree\n",
        "weight-0/dbg_wgt_0.out": "w\n",
        "initializer/dbg_initializer.out": "i\n",
        "streamer-1/dbg_streamer_1.out": "s\n",
    }


def test_an_archive_can_be_cut_to_roles_and_last_lines(
    state: State, tmp_path: Path, clock: FakeClock
) -> None:
    request = ExportRequest(job=JOB, tasks=("chief",), num_lines=2)
    found = gathered(exports_of(state, tmp_path, clock), request)

    assert found.keys() == {"events.txt", "chief-0/dbg_chf_0.out"}
    assert found["chief-0/dbg_chf_0.out"] == "two\nthree\n"


def test_an_archive_comes_in_pages(
    state: State, tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_exports, "PAGE_BYTES", 10)

    assert gathered(exports_of(state, tmp_path, clock), ExportRequest(job=JOB))


def test_what_does_not_exist_is_refused(state: State, tmp_path: Path, clock: FakeClock) -> None:
    exports = exports_of(state, tmp_path, clock)

    with pytest.raises(NotFoundError):
        exports.create(ExportRequest(job=JobId("wsjob-none")))
    with pytest.raises(UserError, match="role 'cook'"):
        exports.create(ExportRequest(job=JOB, tasks=("cook",)))
    with pytest.raises(NotFoundError):
        exports.load("../state")


def test_an_export_is_removed_when_its_time_is_over(
    state: State, tmp_path: Path, clock: FakeClock
) -> None:
    short, kept = (complete(exports_of(state, tmp_path, clock)) for _ in range(2))
    exports = exports_of(state, tmp_path, clock)
    exports.keep_until(kept.id, clock.now() + dt.timedelta(days=100))
    clock.advance(dt.timedelta(days=8).total_seconds())

    later = exports_of(state, tmp_path, clock)
    later.create(ExportRequest(job=JOB))
    later.close()

    assert later.load(kept.id).status is ExportStatus.COMPLETED
    with pytest.raises(NotFoundError):
        later.load(short.id)


def test_an_export_that_a_restart_interrupted_has_failed(
    state: State, tmp_path: Path, clock: FakeClock
) -> None:
    exports = exports_of(state, tmp_path, clock)
    export = exports.create(ExportRequest(job=JOB))
    exports.close()
    path = tmp_path / "exports" / f"{export.id}.json"
    text = find_unsealed(path.read_bytes())
    assert text is not None
    path.write_bytes(sealed(text.replace(b'"completed"', b'"running"')))

    later = exports_of(state, tmp_path, clock)

    assert later.load(export.id).status is ExportStatus.FAILED
    with pytest.raises(ConflictError, match="restarted"):
        later.page(export.id, "")


def test_a_job_has_so_many_archives_and_no_more(
    state: State, tmp_path: Path, clock: FakeClock
) -> None:
    exports = exports_of(state, tmp_path, clock)
    made = []
    for _ in range(log_exports.MAX_OF_JOB + 3):
        made.append(exports.create(ExportRequest(job=JOB)).id)
        while exports.load(made[-1]).status is ExportStatus.RUNNING:
            pass
    exports.close()
    kept = {path.stem for path in (tmp_path / "exports").glob("*.zip")}
    assert len(kept) == log_exports.MAX_OF_JOB
    assert made[-1] in kept
    with pytest.raises(NotFoundError):
        exports.load(made[0])


def test_gathering_takes_no_memory_for_a_log_of_any_length(
    state: State, tmp_path: Path, clock: FakeClock
) -> None:
    with (tmp_path / "work" / "logs" / "chief-0.log").open("ab") as log:
        log.truncate(1 << 28)
    exports = exports_of(state, tmp_path, clock)
    tracemalloc.start()
    try:
        export = exports.create(ExportRequest(job=JOB, has_pod_logs=True))
        exports.close()
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert exports.load(export.id).status is ExportStatus.COMPLETED
    assert peak_bytes < 1 << 24
