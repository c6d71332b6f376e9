"""Which pods a job consists of, and what each is told."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from appliance.core.cluster.jobs import JobType
from appliance.core.cluster.liveness import STALL_OPTION
from appliance.core.cluster.pods import (
    CLIENT_CONFIG_OPTION,
    DEVICE_OPTION,
    FAN_OUT_OPTION,
    MACHINE_CODE_OPTION,
    MANAGEMENT,
    MEMORY_OPTION,
    SYSTEMS_OPTION,
    THREADS_OPTION,
    PodSpec,
    member_name,
)
from appliance.core.cluster.records import JobRecord
from appliance.core.cluster.swarmx_tree import swarmx_tree
from appliance.core.cluster.systems import POD_KINDS
from appliance.core.ids import Role
from appliance.core.plans.shard_count import MEMORY_NODES_OPTION, ONE_NODE, MemoryNodes
from appliance.management.access.driver_tokens import DriverTokens
from appliance.management.access.stream_secrets import job_key
from appliance.management.cluster.demands import main_pod_kind
from appliance.management.options.groups import RunOptions
from appliance.observability.tracing import OTLP_OPTION, place_of_job
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
        runs: How jobs are run.
        bind_host: Address at which coordinators listen for clients.
        public_host: Name by which clients reach them.
        driver_tokens: Makes the tokens by which the scripts of drivers are known.
        tls_cert: Certificate for coordinators; empty for plain text.
        tls_key: Its key.
        client_githash: The client's own git hash, which it demands of coordinators.
        client_version: The client's release.
        cluster_systems: Systems that exist; a compile for more is refused.
        num_cores: CPU cores to share out.
        node_cores: CPU cores of each node, where there are several.
        memory_nodes: Nodes that MemoryX of a job may have.
        has_pod_limits: Whether each pod has a limit of its memory for itself.
        is_remote: Whether management is on another host than any pod; its address is then host:port
            of its network server.
        stream_secret: What the keys of the jobs' streams are made from.
        stream_identity: File with the identity for encrypted streams; empty for plain ones.
        otlp: Where traces go; empty for nowhere.
        client_config: The client's configuration file, where drivers have no other way to it.
    """

    management_address: str
    compile_root: Path
    runs: RunOptions
    bind_host: str
    public_host: str
    driver_tokens: DriverTokens
    tls_cert: str = ""
    tls_key: str = ""
    client_githash: str = ""
    client_version: str = ""
    cluster_systems: int = 0
    num_cores: int = 1
    node_cores: Mapping[str, int] = field(default_factory=dict)
    memory_nodes: MemoryNodes = ONE_NODE
    has_pod_limits: bool = False
    is_remote: bool = False
    stream_secret: bytes = b""
    stream_identity: str = ""
    otlp: str = ""
    client_config: str = ""


def plan_pods(
    job: JobRecord,
    runtime_dir: Path,
    surroundings: Surroundings,
    nodes: Mapping[str, str] = {},
    *,
    driver: str = "",
) -> tuple[PodSpec, ...]:
    """Return the pods of a job, coordinator first.

    Args:
        job: The job.
        runtime_dir: Its directory for sockets.
        surroundings: What pods need to know of the appliance.
        nodes: Node of each pod by member name; empty if there is only one.
        driver: What a driver runs, as JSON; empty for other jobs.
    """
    hosts = _hosts(job, surroundings, nodes)
    work_dir = Path(job.work_dir)
    common = {
        "job_type": job.type.value,
        "num_systems": str(job.num_systems),
        "workers_per_system": str(job.workers_per_system),
        "num_shards": str(job.requirements.num_shards),
        "request_path": f"{job.work_dir}/{REQUEST_FILE}",
        "precision": surroundings.runs.precision,
        STREAMS_OPTION: StreamMode.RING if hosts else surroundings.runs.streams,
        STALL_OPTION: f"{surroundings.runs.stall_seconds:g}",
        "user_uid": _user_id(job.user.uid),
        "user_gid": _user_id(job.user.gid),
    }
    if hosts:
        common |= {
            KEY_OPTION: job_key(surroundings.stream_secret, job.id),
            IDENTITY_OPTION: surroundings.stream_identity,
        }
    if driver:
        common["driver"] = driver
    shares = _shares(job, surroundings, nodes)
    trace, _ = place_of_job(work_dir)
    if trace:
        common[OTLP_OPTION] = surroundings.otlp
    return tuple(
        PodSpec(
            job=job.id,
            role=role,
            index=index,
            runtime_dir=runtime_dir,
            work_dir=work_dir,
            management_address=surroundings.management_address,
            options={
                **common,
                **_memory(role, job),
                **_options(role, job, surroundings, shares[role, node]),
            },
            hosts=hosts,
            node=node,
            trace=trace,
        )
        for role, index in _members(job)
        for node in (nodes.get(member_name(role, index), ""),)
    )


def _hosts(
    job: JobRecord, surroundings: Surroundings, nodes: Mapping[str, str]
) -> Mapping[str, str]:
    hosts = dict(nodes)
    if not hosts and surroundings.runs.has_network:
        names = [member_name(role, index) for role, index in _members(job)]
        hosts = dict(zip(names, names, strict=True))
    if hosts and surroundings.is_remote:
        hosts[MANAGEMENT] = MANAGEMENT
    return hosts


def _user_id(number: int) -> str:
    return str(number) if number >= 0 else ""


def _members(job: JobRecord) -> Iterator[tuple[Role, int]]:
    if job.type is JobType.DRIVER:
        yield Role.DRIVER, 0
        return
    yield Role.COORDINATOR, 0
    if not job.type.has_gang:
        return
    for shard in range(job.requirements.num_shards):
        yield Role.WEIGHT, shard
    for pod in swarmx_tree(job.num_systems, fan_out=job.requirements.fan_out):
        yield Role.BROADCASTREDUCE, pod.index
    for index in range(job.num_systems):
        yield Role.CHIEF, index
        yield Role.ACTIVATION, index
    for index in range(job.num_systems * job.workers_per_system):
        yield Role.WORKER, index


def _memory(role: Role, job: JobRecord) -> Mapping[str, str]:
    """Return what a pod counts for on its node; of alike nodes' pods the largest is known."""
    kind = POD_KINDS.get(main_pod_kind(job.type) if role is Role.COORDINATOR else role.value)
    demands = [each.memory_bytes for each in job.requirements.pods if each.role == kind]
    return {MEMORY_OPTION: str(max(demands))} if any(demands) else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Share:
    """What a pod may use of its node.

    Attributes:
        num_threads: Threads.
        num_alike: Pods of its role that the job has on that node, itself among them.
    """

    num_threads: int
    num_alike: int


def _served(job: JobRecord, surroundings: Surroundings) -> Mapping[str, str]:
    """Return what a pod needs that clients speak to."""
    return {
        "compile_root": str(surroundings.compile_root),
        "service_authority": job.service_authority,
        "bind_host": surroundings.bind_host,
        "public_host": surroundings.public_host,
        "tls_cert": surroundings.tls_cert,
        "tls_key": surroundings.tls_key,
    }


def _options(
    role: Role, job: JobRecord, surroundings: Surroundings, share: _Share
) -> Mapping[str, str]:
    if job.type.is_sdk:
        return {**_served(job, surroundings), SYSTEMS_OPTION: ",".join(job.systems)}
    if role is Role.COORDINATOR:
        return {
            **_served(job, surroundings),
            "wafer_bytes": str(surroundings.runs.wafer_bytes or ""),
            "execution": surroundings.runs.execution,
            FAN_OUT_OPTION: str(job.requirements.fan_out),
            "cluster_systems": str(surroundings.cluster_systems),
            MEMORY_NODES_OPTION: str(surroundings.memory_nodes),
            "machine": surroundings.runs.machine,
            "client_githash": surroundings.client_githash,
            "client_version": surroundings.client_version,
            THREADS_OPTION: "1",
        }
    if role is Role.DRIVER:
        token = surroundings.driver_tokens.mint(job.id)
        return {
            "token": token,
            "user_name": job.user.name,
            CLIENT_CONFIG_OPTION: surroundings.client_config,
        }
    options = {THREADS_OPTION: str(share.num_threads)}
    if role in (Role.WEIGHT, Role.CHIEF):
        options[MACHINE_CODE_OPTION] = str(surroundings.compile_root.parent / "machine-code")
    if role is Role.WEIGHT:
        options["memory_bytes"] = str(surroundings.runs.memoryx_bytes)
        options["pods_here"] = str(1 if surroundings.has_pod_limits else share.num_alike)
    if role is Role.CHIEF:
        options[DEVICE_OPTION] = surroundings.runs.csx_device
        options["machine"] = surroundings.runs.machine
        options["pace"] = f"{surroundings.runs.pace:g}" if surroundings.runs.pace else ""
    return options


def _shares(
    job: JobRecord, surroundings: Surroundings, nodes: Mapping[str, str]
) -> Mapping[tuple[Role, str], _Share]:
    """Return the share of each pod by its role and its node.

    The systems of a node share its cores; so do weight pods, with half of them.
    """
    alike = Counter(
        (role, nodes.get(member_name(role, index), "")) for role, index in _members(job)
    )
    found: dict[tuple[Role, str], _Share] = {}
    for (role, node), count in alike.items():
        num_cores = surroundings.node_cores.get(node, surroundings.num_cores)
        whole = {Role.CHIEF: num_cores, Role.WEIGHT: num_cores // 2}.get(role, count)
        found[role, node] = _Share(num_threads=max(1, whole // count), num_alike=count)
    return found
