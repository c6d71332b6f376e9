"""Every file of the data directory, damaged in every way: refused by name or repaired, never used.

The table names the reader of each; a file that is written and missing here fails the last test.
"""

import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from appliance.cluster.work_dirs import write_request
from appliance.coordinator.compile.artifacts import ArtifactStore, CompileCache
from appliance.coordinator.run.kernel_selection import KernelTable
from appliance.core.clock import SystemClock
from appliance.core.errors import NotFoundError, WscError
from appliance.core.ids import JobId
from appliance.files.profiles import find_wafer_picture, keep_wafer_picture
from appliance.management.access.certificates import ensure_certificates
from appliance.management.access.stream_secrets import ensure_identity
from appliance.management.front.client_config import write_client_config
from appliance.management.logs.log_exports import Export, ExportStatus, LogExports
from appliance.management.pods.coordinators import CoordinatorAddresses
from appliance.management.store.databases import keep_url, kept_url, open_own_database
from appliance.management.store.instance import Instance, InstanceState
from appliance.management.store.keys import DRIVER_TOKENS, NODES, STREAMS, TOKENS, ensure_key
from appliance.management.store.persistent_ports import Ports
from appliance.management.store.state import State
from protos.wsc.v1 import pods_pb2
from tests.support.entry_points.written_files import FILES
from workers.sdk.cache import ProgramCache
from workers.sdk.files import Upload

JOB = JobId("wsjob-a")
CLOCK = SystemClock()
EXPORT = Export(
    id=f"export-{'1' * 16}",
    job=JOB,
    status=ExportStatus.FAILED,
    detail="gone",
    num_bytes=0,
    signature="",
    kept_until="2100-01-01T00:00:00+00:00",
)
UPLOAD = Upload(target="hash", digests={"layout.csl": b"1"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A file and how it is read.

    Attributes:
        place: As the table of files names it, or below that.
        file: The file, below the data directory.
        read: Makes it if it is not there, and returns what it says.
        lost: What reading may say where the file is damaged, as if it were not there.
    """

    place: str
    file: str
    read: Callable[[Path], object]
    lost: object = "nothing may be lost"


def database(data: Path) -> object:
    with_database = open_own_database(data, "")
    with_database.close()
    return "opened"


def url(data: Path) -> str:
    if not (data / "database.url").exists():
        keep_url(data, "postgresql+psycopg://ada@db.example.org/wsc")
    return kept_url(data)


def certificates(data: Path) -> bytes:
    files = ensure_certificates(data / "tls", "front.example.org", CLOCK)
    return b"".join(each.read_bytes() for each in (files.authority, files.certificate, files.key))


def identity(data: Path) -> bytes:
    return ensure_identity(data / "tls" / "streams.pem", CLOCK).read_bytes()


def config(data: Path) -> bytes:
    path = data / "config_v2"
    write_client_config(path, address="localhost:9000", authority_pem=b"pem")
    return path.read_bytes()


def state(data: Path) -> InstanceState | None:
    if not (data / "appliance.json").exists():
        words = dict.fromkeys(("address", "rest_url", "config_path", "runtime_root"), "x")
        made = InstanceState(pid=1 << 21, num_systems=1, ports=Ports(port=41_000), **words)
        Instance(data).write_state(made)
    return Instance(data).find_state()


def request(data: Path) -> bytes:
    write_request(data / "jobs" / JOB, b"the request of a job")
    return (data / "jobs" / JOB / "request.bin").read_bytes()


def address(data: Path) -> str:
    (data / "jobs" / JOB).mkdir(parents=True, exist_ok=True)
    addresses = CoordinatorAddresses(data / "jobs")
    if not (data / "jobs" / JOB / "control_address").exists():
        addresses.note(JOB, "192.0.2.1:41000")
    return addresses.find(JOB)


def picture(data: Path) -> str | None:
    if not (data / "jobs" / JOB / "wafer-1.json").exists():
        (data / "jobs" / JOB).mkdir(parents=True, exist_ok=True)
        keep_wafer_picture(data / "jobs" / JOB, 1, '{"picture": 1}')
    return find_wafer_picture(data / "jobs" / JOB, 1)


def artifact(data: Path) -> tuple[str, str]:
    store = ArtifactStore(data / "compile")
    directory = store.directory("cs_1")
    store.drop_damaged(directory)
    if not store.has(directory):
        store.store(directory, plan_text="a plan", program="a program", memory="{}")
    return store.plan_text("cs_1"), store.memory(directory)


def kernels(data: Path) -> object:
    table = KernelTable(data / "compile" / ".kernels")
    timing = pods_pb2.ProblemTiming(
        problem="problem", chosen="openblas", by_rule="openblas", num_operations=1
    )
    found = table.read("machine", 1)
    return found or table.add("machine", 1, {"problem": timing})


def program(data: Path) -> bytes | None:
    cache = ProgramCache(data / "compile" / "cs_1" / "programs", 1000, 1 << 20)
    if not (data / "compile" / "cs_1" / "programs").exists():
        cache.keep(UPLOAD, b"a program of an SDK job")
    return cache.find(UPLOAD)


def export(data: Path) -> Export | None:
    database = open_own_database(data, "")
    try:
        exports = LogExports(
            State.over(database, CLOCK),
            data / "exports",
            CLOCK,
            compile_cache=CompileCache(root=data / "compile"),
        )
        exports.close()
        if not list((data / "exports").glob("*.json")):
            exports._keep(EXPORT)
        return exports.load(EXPORT.id)
    except NotFoundError:
        return None
    finally:
        database.close()


KEPT = [
    Kept(place="DATA/state.db", file="state.db", read=database),
    Kept(place="DATA/database.url", file="database.url", read=url),
    *(
        Kept(
            place=f"DATA/{key.name}",
            file=key.name,
            read=lambda data, key=key: ensure_key(data, key),
        )
        for key in (TOKENS, DRIVER_TOKENS, STREAMS, NODES)
    ),
    *(
        Kept(place="DATA/tls/", file=f"tls/{name}", read=certificates)
        for name in ("ca.pem", "server.pem", "server.key")
    ),
    Kept(place="DATA/tls/", file="tls/streams.pem", read=identity),
    Kept(place="DATA/config_v2", file="config_v2", read=config),
    Kept(place="DATA/appliance.json", file="appliance.json", read=state, lost=None),
    Kept(place="DATA/jobs/JOB/", file=f"jobs/{JOB}/request.bin", read=request),
    Kept(place="DATA/jobs/JOB/", file=f"jobs/{JOB}/control_address", read=address),
    Kept(place="DATA/jobs/JOB/", file=f"jobs/{JOB}/wafer-1.json", read=picture, lost=None),
    *(
        Kept(place="DATA/compile/", file=f"compile/cs_1/{name}", read=artifact)
        for name in ("plan.txt", "program.mlir", "memory.json", "SHA256SUMS")
    ),
    Kept(place="DATA/compile/.kernels/", file="compile/.kernels/*.json", read=kernels),
    Kept(place="DATA/exports/", file="exports/*.json", read=export, lost=None),
    Kept(
        place="DATA/compile/DIR/programs/",
        file="compile/cs_1/programs/*.tar.gz",
        read=program,
        lost=None,
    ),
]
WITHOUT_STATE = {
    "DATA/": "a directory",
    "DATA/appliance.lock": "holds nothing",
    "DATA/management.log": "is read by people",
    "DATA/fork-server.log": "is read by people",
}
"""What is written and not read again by us, with the reason."""


def damages(text: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield what may become of a file's bytes."""
    noise = random.Random(5)
    yield "empty", b""
    yield "half", text[: len(text) // 2]
    yield "zeros", bytes(len(text))
    yield "garbage", noise.randbytes(len(text))
    yield "short garbage", noise.randbytes(7)
    yield "garbage in front", noise.randbytes(64) + text[64:]


@pytest.mark.parametrize("kept", KEPT, ids=[each.file for each in KEPT])
def test_a_damaged_file_is_refused_by_name_or_repaired_and_never_used(
    tmp_path: Path, kept: Kept
) -> None:
    before = kept.read(tmp_path)
    (path,) = tmp_path.glob(kept.file)
    text = path.read_bytes()
    for how, damaged in damages(text):
        path.write_bytes(damaged)
        found = outcome(kept, tmp_path)
        if isinstance(found, WscError):
            assert str(path.parent) in found.message, how
            assert found.hint, how
            assert path.read_bytes() == damaged, f"{how}: what may be looked into stays"
        else:
            assert found in (before, kept.lost), how
        path.write_bytes(text)
        assert kept.read(tmp_path) == before, how


def outcome(kept: Kept, data: Path) -> object:
    try:
        return kept.read(data)
    except WscError as error:
        return error


@pytest.mark.parametrize("key", [TOKENS, DRIVER_TOKENS, STREAMS, NODES], ids=lambda key: key.name)
def test_a_key_that_was_written_without_a_seal_gets_one(tmp_path: Path, key) -> None:
    path = tmp_path / key.name
    bare = random.Random(1).randbytes(32)
    path.write_bytes(bare)
    path.chmod(0o600)
    assert ensure_key(tmp_path, key) == bare
    assert len(path.read_bytes()) > 32
    assert ensure_key(tmp_path, key) == bare


def test_keys_and_certificates_are_ours_alone(tmp_path: Path) -> None:
    ensure_key(tmp_path, TOKENS)
    certificates(tmp_path)
    identity(tmp_path)
    modes = {
        each.name: oct(each.stat().st_mode & 0o777)
        for each in tmp_path.rglob("*")
        if each.is_file()
    }
    assert set(modes.values()) == {"0o600"}
    assert os.stat(tmp_path / "tls").st_mode & 0o777 == 0o700


def test_every_file_of_the_data_directory_is_damaged_here() -> None:
    written = {each.place for each in FILES if each.place.startswith("DATA/")}
    assert written == {each.place for each in KEPT} | set(WITHOUT_STATE)
