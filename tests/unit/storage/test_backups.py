"""A backup is one moment of what is kept; a restore puts back all of it, or nothing."""

import datetime as dt
import io
import itertools
import json
import os
import sqlite3
import stat
import tarfile
import tempfile
import threading
from contextlib import closing, contextmanager

import pytest
from sqlalchemy import create_engine, inspect

from appliance.core.cluster.access import UserRole
from appliance.core.cluster.jobs import Phase
from appliance.core.cluster.records import EventRecord
from appliance.core.errors import ClusterError, ConflictError, StaleWriterError, UserError
from appliance.core.ids import JobId
from appliance.management.store.backups import make_backup, restore_backup
from appliance.management.store.databases import open_kept_database, open_own_database
from appliance.management.store.instance import Instance
from appliance.management.store.state import State
from appliance.storage.schema.tables import Base
from tests.support.clock import FakeClock
from tests.support.management import move, new_job

NOW = dt.datetime(2026, 11, 23, tzinfo=dt.UTC)
_NUMBERS = itertools.count()
JOB = JobId("wsjob-a")


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request):
    """A database that is empty yet."""
    if request.param == "sqlite":
        return ""
    return new_server_database(request)


def new_server_database(request):
    template = request.getfixturevalue("postgres")
    name = f"backup{next(_NUMBERS)}"
    server = create_engine(template.format(name="postgres"), isolation_level="AUTOCOMMIT")
    with server.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
    server.dispose()
    return template.format(name=name)


@pytest.fixture
def data_dir(tmp_path, url):
    """The data directory of an appliance with one job, and its keys."""
    directory = tmp_path / "data"
    (directory / "tls").mkdir(parents=True)
    for name in ("streams.key", "token.key", "tls/server.key", "tls/ca.crt"):
        (directory / name).write_text(f"secret of {name}")
    (directory / "jobs").mkdir()
    with opened(directory, url) as state:
        state.database.claim()
        state.jobs.create(new_job(JOB, labels={"a": "\\N\tb\n\x07é"}))
    return directory


@contextmanager
def opened(data_dir, url):
    """Yield the repositories of a data directory."""
    with closing(open_kept_database(data_dir, url)) as database:
        yield State.over(database, FakeClock())


def backup(data_dir, url, target, *, has_keys=True):
    return make_backup(data_dir, url, target, has_keys=has_keys, now=NOW)


def restore(source, data_dir, url, *, has_keys=True, replaces=False):
    try:
        return restore_backup(source, data_dir, url, has_keys=has_keys, replaces=replaces)
    finally:
        release(data_dir)


def release(data_dir):
    """Let go of the locks that a restore holds until its process ends."""
    locks = [path.stat() for path in (data_dir, data_dir / "appliance.lock")]
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        try:
            if any(os.path.samestat(os.fstat(descriptor), lock) for lock in locks):
                os.close(descriptor)
        except OSError:
            continue


def entries(path):
    """Return what an archive holds."""
    with tarfile.open(path) as tar:
        return {each.name: tar.extractfile(each).read() for each in tar.getmembers()}


def write(path, contents):
    with tarfile.open(path, "w") as tar:
        for name, data in contents.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


def test_all_that_was_kept_comes_back_and_what_came_later_is_gone(data_dir, url, tmp_path):
    with opened(data_dir, url) as state:
        before = state.jobs.load(JOB)
        events = state.jobs.events(JOB)
    target = tmp_path / "backup.tar"
    manifest = backup(data_dir, url, target)
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert manifest.has_keys
    with opened(data_dir, url) as state:
        move(state.jobs, JOB, Phase.QUEUED, Phase.CANCELLED)
        state.jobs.create(new_job("wsjob-later"))
    (data_dir / "token.key").write_text("another one")
    with pytest.raises(ConflictError, match="--replace"):
        restore(target, data_dir, url)
    restore(target, data_dir, url, replaces=True)
    with opened(data_dir, url) as state:
        assert state.jobs.load(JOB) == before
        assert state.jobs.events(JOB) == events
        assert state.jobs.find(JobId("wsjob-later")) is None
        # Numbers that the database gives rows go on.
        state.jobs.add_event(EventRecord(job=JOB, at=NOW, reason="R", message="m", subject=JOB))
        assert len(state.jobs.events(JOB)) == len(events) + 1
        state.jobs.create(new_job("wsjob-b"))
        assert state.jobs.load(JobId("wsjob-b")).sequence > before.sequence
    assert (data_dir / "token.key").read_text() == "secret of token.key"
    assert stat.S_IMODE((data_dir / "tls" / "server.key").stat().st_mode) == 0o600
    assert not list(data_dir.glob(".restore-*"))


@pytest.mark.parametrize("url", [""])
def test_keys_come_back_where_their_directory_is_another_disk(data_dir, url, tmp_path):
    """As in containers, where each kind of secret has a volume."""
    target = tmp_path / "backup.tar"
    backup(data_dir, url, target)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as disk:
        assert os.stat(disk).st_dev != data_dir.stat().st_dev
        for file in (data_dir / "tls").iterdir():
            file.unlink()
        (data_dir / "tls").rmdir()
        (data_dir / "tls").symlink_to(disk)
        restore(target, data_dir, url, replaces=True)
        restore(target, data_dir, url, replaces=True)  # over files that are there
        key = data_dir / "tls" / "server.key"
        assert key.read_text() == "secret of tls/server.key"
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
        assert sorted(os.listdir(disk)) == ["ca.crt", "server.key"]


def test_a_backup_of_a_file_goes_into_a_server(data_dir, url, tmp_path, request):
    server = new_server_database(request)
    target, moved = tmp_path / "backup.tar", tmp_path / "moved"
    moved.mkdir()
    with opened(data_dir, url) as state:
        move(state.jobs, JOB, Phase.QUEUED, Phase.CANCELLED)
        state.access.create_account("ada", uid=1001, gid=100, role=UserRole.USER, sessions=["nlp"])
        before, events = state.jobs.load(JOB), state.jobs.events(JOB)
        accounts = state.access.accounts()
    backup(data_dir, url, target)
    restore(target, moved, server)
    with opened(moved, server) as state:
        assert state.jobs.load(JOB) == before
        assert state.jobs.events(JOB) == events
        assert state.access.accounts() == accounts
        # Numbers that the database gives rows go on.
        state.jobs.create(new_job("wsjob-b"))
        assert state.jobs.load(JobId("wsjob-b")).sequence > before.sequence
    with pytest.raises(ConflictError, match="The database holds 2 job"):
        restore(target, moved, server)
    restore(target, moved, server, replaces=True)
    with opened(moved, server) as state:
        assert state.jobs.find(JobId("wsjob-b")) is None
    assert not (moved / "state.db").exists()
    assert (moved / "token.key").read_text() == "secret of token.key"


@pytest.mark.parametrize("url", [""])
def test_every_table_goes_into_a_server(data_dir, url):
    engine = create_engine(f"sqlite:///{data_dir / 'state.db'}")
    present = set(inspect(engine).get_table_names()) - {"alembic_version"}
    engine.dispose()
    assert present == set(Base.metadata.tables)


def test_a_backup_beside_a_writer_is_one_moment(data_dir, url, tmp_path):
    is_over, begun = threading.Event(), threading.Event()

    def write_pairs():
        with opened(data_dir, url) as state:
            for number in itertools.count():
                with state.database.batch():
                    state.jobs.create(new_job(f"wsjob-x{number}"))
                    state.jobs.create(new_job(f"wsjob-y{number}"))
                begun.set()
                if is_over.is_set():
                    return

    thread = threading.Thread(target=write_pairs)
    thread.start()
    try:
        assert begun.wait(60)
        for number in range(3):
            backup(data_dir, url, tmp_path / f"{number}.tar")
    finally:
        is_over.set()
        thread.join()
    for number in range(3):
        restore(tmp_path / f"{number}.tar", data_dir, url, replaces=True)
        with opened(data_dir, url) as state:
            jobs = {job.id for job in state.jobs.unfinished()}
        pairs = {job[7:] for job in jobs if job.startswith("wsjob-x")}
        assert pairs
        assert jobs == {JOB, *(f"wsjob-{side}{pair}" for side in "xy" for pair in pairs)}


def test_a_restored_database_belongs_to_nobody_who_wrote_to_it_before(data_dir, url, tmp_path):
    target = tmp_path / "backup.tar"
    with opened(data_dir, url) as state:
        state.database.claim()
        token = state.database._token
    backup(data_dir, url, target)
    restore(target, data_dir, url, replaces=True)
    with opened(data_dir, url) as state:
        state.database._token = token
        with pytest.raises(StaleWriterError):
            state.jobs.create(new_job("wsjob-b"))


def test_nothing_is_restored_over_an_appliance_that_runs(data_dir, url, tmp_path):
    target = tmp_path / "backup.tar"
    backup(data_dir, url, target)
    Instance(data_dir).acquire()
    with pytest.raises(ConflictError, match="already runs on"):
        restore_backup(target, data_dir, url, has_keys=True, replaces=True)
    release(data_dir)
    if url:  # another machine's appliance on the same server
        with opened(data_dir, url) as state:
            assert state.jobs.find(JOB)
            with pytest.raises(ConflictError, match="other connection"):
                restore(target, tmp_path / "data", url, replaces=True)
    with opened(data_dir, url) as state:
        assert state.jobs.find(JOB)


@pytest.mark.parametrize("url", [""])
def test_without_keys_none_is_in_it_and_those_that_are_there_stay(data_dir, url, tmp_path):
    target = tmp_path / "backup.tar"
    assert not backup(data_dir, url, target, has_keys=False).has_keys
    assert set(entries(target)) == {"manifest.json", "state.db"}
    both = tmp_path / "keys.tar"
    backup(data_dir, url, both)
    (data_dir / "token.key").write_text("mine")
    restore(target, data_dir, url, replaces=True)
    restore(both, data_dir, url, has_keys=False, replaces=True)
    assert (data_dir / "token.key").read_text() == "mine"
    assert sorted(each.name for each in data_dir.glob("state.db.replaced-?")) == [
        "state.db.replaced-1",
        "state.db.replaced-2",
    ]


def harm_database(contents):
    data = bytearray(contents["state.db"])
    data[5000:9000] = b"\xff" * 4000
    contents["state.db"] = bytes(data)


def add_path(contents):
    contents["../../escaped"] = b"x"


def lose_database(contents):
    del contents["state.db"]


def manifest_of(contents, **changes):
    fields = {**json.loads(contents["manifest.json"]), **changes}
    contents["manifest.json"] = json.dumps(fields).encode()


@pytest.mark.parametrize("url", [""])
@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (harm_database, "state.db is not what it was"),
        (add_path, "does not name '../../escaped'"),
        (lose_database, "it lacks state.db"),
        (lambda all_: manifest_of(all_, format=2), "has format 2; this version reads format 1"),
        (lambda all_: manifest_of(all_, revision="9999"), "is of revision '9999'"),
        (lambda all_: manifest_of(all_, engine="postgresql"), "into another kind"),
        (lambda all_: all_.pop("manifest.json"), "does not begin with a manifest"),
        (lambda all_: all_.update({"manifest.json": b"[]"}), "manifest cannot be read"),
    ],
)
def test_an_archive_that_is_not_whole_changes_nothing(data_dir, url, tmp_path, harm, message):
    target = tmp_path / "backup.tar"
    backup(data_dir, url, target)
    contents = entries(target)
    harm(contents)
    write(target, contents)
    database = (data_dir / "state.db").read_bytes()
    with pytest.raises(UserError, match=message):
        restore(target, data_dir, url, replaces=True)
    assert (data_dir / "state.db").read_bytes() == database
    assert not (tmp_path / "escaped").exists()
    assert not list(data_dir.glob(".restore-*"))


def sparse(tar, name, data):
    info = tarfile.TarInfo(name)
    info.pax_headers = {"GNU.sparse.major": "0", "GNU.sparse.minor": "1"}
    info.pax_headers |= {"GNU.sparse.size": str(1 << 45), "GNU.sparse.map": f"0,{len(data)}"}
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))


def twice(tar, name, data):
    for _ in range(2):
        info = tarfile.TarInfo(name)
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))


def longer(tar, name, data):
    info = tarfile.TarInfo(name)
    info.size = len(data) + 512
    tar.addfile(info, io.BytesIO(data + bytes(512)))


@pytest.mark.parametrize("url", [""])
@pytest.mark.parametrize("add", [sparse, twice, longer])
def test_an_archive_unpacks_to_no_more_than_it_holds(data_dir, url, tmp_path, add):
    target = tmp_path / "backup.tar"
    backup(data_dir, url, target, has_keys=False)
    contents = entries(target)
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as tar:
        for name in ("manifest.json", "state.db"):
            if name == "state.db":
                add(tar, name, contents[name])
                continue
            info = tarfile.TarInfo(name)
            info.size = len(contents[name])
            tar.addfile(info, io.BytesIO(contents[name]))
    with pytest.raises(UserError, match="is not what it was when it was made"):
        restore(target, data_dir, url, replaces=True)
    assert not list(data_dir.glob(".restore-*"))


@pytest.mark.parametrize("url", [""])
@pytest.mark.parametrize(
    "program",
    [
        "CREATE TRIGGER t AFTER INSERT ON jobs BEGIN DELETE FROM jobs; END",
        "CREATE VIEW v AS SELECT 1",
        "CREATE VIRTUAL TABLE f USING fts5(x)",
    ],
)
def test_a_database_that_does_something_by_itself_is_not_restored(data_dir, url, tmp_path, program):
    target = tmp_path / "backup.tar"
    with closing(sqlite3.connect(data_dir / "state.db")) as connection:
        connection.execute(program)
        connection.commit()
    backup(data_dir, url, target)
    with pytest.raises(UserError, match="which no appliance makes"):
        restore(target, data_dir, url, replaces=True)
    assert not list(data_dir.glob(".restore-*"))


@pytest.mark.parametrize("url", [""])
def test_what_is_no_archive_is_refused(data_dir, url, tmp_path):
    target = tmp_path / "backup.tar"
    target.write_bytes(os.urandom(10_000))
    with pytest.raises(UserError, match="no whole backup"):
        restore(target, data_dir, url, replaces=True)
    with pytest.raises(UserError, match="There is no file"):
        restore(tmp_path / "nothing.tar", data_dir, url, replaces=True)
    with pytest.raises(UserError, match="There is a file"):
        backup(data_dir, url, target)
    with pytest.raises(UserError, match="There is no appliance in"):
        backup(tmp_path, "", tmp_path / "new.tar")


@pytest.mark.parametrize("url", [""])
def test_a_restore_that_was_not_finished_keeps_the_appliance_down(data_dir, url, tmp_path):
    target = tmp_path / "backup.tar"
    backup(data_dir, url, target)
    (data_dir / "restore.unfinished").mkdir()
    with pytest.raises(ClusterError, match="begun and not finished"):
        open_own_database(data_dir, url)
    restore(target, data_dir, url, replaces=True)
    with closing(open_own_database(data_dir, url)):
        pass
