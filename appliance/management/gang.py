"""Which pods a job consists of, and what each is told."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from appliance.core.drivers import DRIVER_FILE
from appliance.core.ids import Role
from appliance.core.jobs import JobType
from appliance.core.pods import PodSpec, member_name
from appliance.core.records import JobRecord
from appliance.management.driver_tokens import DriverTokens
from appliance.management.stream_secrets import job_key
from appliance.streams.endpoint import IDENTITY_OPTION, KEY_OPTION
from appliance.streams.topology import STREAMS_OPTION, StreamMode

REQUEST_FILE = "request.bin"
"""Name, in a job's work directory, of the client's serialised job request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What pods need to know of the appliance.

    Attributes:
        management_address: gRPC target of management's inner service.
        compile_root: Directory of the compile cache.
        precision: `f32` or `exact`.
        wafer_bytes: Memory for activations of one system; 0 for no limit.
        execution: How the wafer is used unless a job says it.
        cluster_systems: Systems that exist; a compile for more is refused.
        bind_host: Address at which coordinators listen for clients.
        public_host: Name by which clients reach them.
        tls_cert: Certificate for coordinators; empty for plain text.
        tls_key: Its key.
        client_githash: The client's own git hash, which it demands of coordinators.
        client_version: The client's release.
        num_cores: CPU cores to share out.
        machine: Name or JSON table of the machine whose times are simulated.
        pace: Wall seconds per simulated second; 0 sets no pace.
        memoryx_bytes: Memory that MemoryX of a job may use; 0 for what there is.
        driver_tokens: Makes the tokens by which the scripts of drivers are known.
        stall_seconds: Longest wait of a system for one batch before its job counts as stalled.
        streams: How weights reach the systems on one host: `ring` or `mapped`.
        has_network: Whether every pod counts as a host of its own, so that all streams cross the
            network.
        stream_secret: What the keys of the jobs' streams are made from.
        stream_identity: File with the identity for encrypted streams; empty for plain ones.
    """

    management_address: str
    compile_root: Path
    precision: str
    wafer_bytes: int
    execution: str
    cluster_systems: int
    bind_host: str
    public_host: str
    tls_cert: str
    tls_key: str
    client_githash: str
    client_version: str
    num_cores: int
    machine: str
    pace: float
    driver_tokens: DriverTokens
    stall_seconds: float
    streams: str
    memoryx_bytes: int = 0
    has_network: bool = False
    stream_secret: bytes = b""
    stream_identity: str = ""


def plan_pods(job: JobRecord, runtime_dir: Path, surroundings: Surroundings) -> tuple[PodSpec, ...]:
    """Return the pods of a job, coordinator first."""
    hosts = _hosts(job, surroundings)
    common = {
        "job_type": job.type.value,
        "num_systems": str(job.num_systems),
        "workers_per_system": str(job.workers_per_system),
        "request_path": str(Path(job.work_dir) / REQUEST_FILE),
        "precision": surroundings.precision,
        STREAMS_OPTION: StreamMode.RING if hosts else surroundings.streams,
        "user_uid": _user_id(job.user.uid),
        "user_gid": _user_id(job.user.gid),
    }
    if hosts:
        common |= {
            KEY_OPTION: job_key(surroundings.stream_secret, job.id),
            IDENTITY_OPTION: surroundings.stream_identity,
        }
    return tuple(
        PodSpec(
            job=job.id,
            role=role,
            index=index,
            runtime_dir=runtime_dir,
            work_dir=Path(job.work_dir),
            management_address=surroundings.management_address,
            options={**common, **_options(role, job, surroundings)},
            hosts=hosts,
        )
        for role, index in _members(job)
    )


def _hosts(job: JobRecord, surroundings: Surroundings) -> Mapping[str, str]:
    if not surroundings.has_network:
        return {}
    return {name: name for name in (member_name(role, index) for role, index in _members(job))}


def _user_id(number: int) -> str:
    return str(number) if number >= 0 else ""


def _members(job: JobRecord) -> Iterator[tuple[Role, int]]:
    if job.type is JobType.DRIVER:
        yield Role.DRIVER, 0
        return
    yield Role.COORDINATOR, 0
    if job.type is JobType.COMPILE:
        return
    yield Role.WEIGHT, 0
    yield Role.BROADCASTREDUCE, 0
    for index in range(job.num_systems):
        yield Role.CHIEF, index
        yield Role.ACTIVATION, index
    for index in range(job.num_systems * job.workers_per_system):
        yield Role.WORKER, index


def _options(role: Role, job: JobRecord, surroundings: Surroundings) -> Mapping[str, str]:
    if role is Role.COORDINATOR:
        return {
            "compile_root": str(surroundings.compile_root),
            "wafer_bytes": str(surroundings.wafer_bytes or ""),
            "execution": surroundings.execution,
            "cluster_systems": str(surroundings.cluster_systems),
            "machine": surroundings.machine,
            "stall_seconds": f"{surroundings.stall_seconds:g}",
            "service_authority": job.service_authority,
            "bind_host": surroundings.bind_host,
            "public_host": surroundings.public_host,
            "tls_cert": surroundings.tls_cert,
            "tls_key": surroundings.tls_key,
            "client_githash": surroundings.client_githash,
            "client_version": surroundings.client_version,
            "torch_threads": "1",
        }
    if role is Role.DRIVER:
        token = surroundings.driver_tokens.mint(job.id)
        return {
            "driver_path": str(Path(job.work_dir) / DRIVER_FILE),
            "token": token,
            "user_name": job.user.name,
        }
    options = {"torch_threads": str(_num_threads(role, job.num_systems, surroundings.num_cores))}
    if role is Role.WEIGHT:
        options["memory_bytes"] = str(surroundings.memoryx_bytes)
    if role is Role.CHIEF:
        options["machine"] = surroundings.machine
        options["pace"] = f"{surroundings.pace:g}" if surroundings.pace else ""
    return options


def _num_threads(role: Role, num_systems: int, num_cores: int) -> int:
    if role is Role.CHIEF:
        return max(1, num_cores // num_systems)
    if role is Role.WEIGHT:
        return max(1, num_cores // 2)
    return 1
