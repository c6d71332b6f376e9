"""Which pods a job consists of, and the options of each."""

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from appliance.cluster.node_cores import NodeCores
from appliance.coordinator.compile.artifacts import CompileCache
from appliance.core.cluster.jobs import JobType
from appliance.core.cluster.records import JobRecord
from appliance.core.cluster.swarmx_tree import pod_above, swarmx_tree
from appliance.core.cluster.systems import POD_KINDS
from appliance.core.ids import Role
from appliance.core.plans.plan import Precision
from appliance.core.plans.shard_count import ONE_NODE, MemoryNodes
from appliance.core.pods.pod_options import (
    ActivationPodOptions,
    ChiefPodOptions,
    CoordinatorPodOptions,
    Device,
    DriverPodOptions,
    PodOptions,
    SdkPodOptions,
    StreamMode,
    SwarmxPodOptions,
    WeightPodOptions,
    WorkerPodOptions,
)
from appliance.core.pods.pod_spec import MANAGEMENT, REQUEST_FILE, PodSpec, member_name
from appliance.management.access.driver_tokens import DriverTokens
from appliance.management.access.stream_secrets import job_key
from appliance.management.cluster.demands import main_pod_kind
from appliance.management.options.settings_by_group import RunOptions
from appliance.management.store.versions import client_build


@dataclass(frozen=True, slots=True, kw_only=True)
class PodEnvironment:
    """What pods need to know of the appliance.

    Attributes:
        management_address: gRPC target of management's inner service.
        compile_cache: Where artifacts are.
        machine_code: Directory of machine code that pods have compiled.
        runs: How jobs are run.
        bind_host: Address at which coordinators listen for clients.
        public_host: Name by which clients reach them.
        driver_tokens: Makes the tokens by which the scripts of drivers are known.
        tls_cert: Certificate for coordinators; None for plain text.
        cluster_systems: Systems that exist; a compile for more is refused.
        num_cores: CPU cores to share out.
        node_cores: CPU cores of each node, where there are several.
        memory_nodes: Nodes that MemoryX of a job may have.
        has_pod_limits: Whether each pod has a limit of its memory for itself.
        is_remote: Whether management is on another node than any pod; its address is then host:port
            of its network server.
        stream_secret: What the keys of the jobs' streams are made from.
        stream_identity: File with the identity for encrypted streams; None for plain ones.
        otlp: Where traces go; empty for nowhere.
        client_config: The client's configuration file, where drivers have no other way to it.
    """

    management_address: str
    compile_cache: CompileCache
    machine_code: Path
    runs: RunOptions
    bind_host: str
    public_host: str
    driver_tokens: DriverTokens
    tls_cert: Path | None = None
    tls_key: Path | None = None
    cluster_systems: int = 0
    num_cores: int = 1
    node_cores: Mapping[str, NodeCores] = field(default_factory=dict)
    memory_nodes: MemoryNodes = ONE_NODE
    has_pod_limits: bool = False
    is_remote: bool = False
    stream_secret: bytes = b""
    stream_identity: Path | None = None
    otlp: str = ""
    client_config: Path | None = None


def plan_pods(
    job: JobRecord,
    runtime_dir: Path,
    pod_environment: PodEnvironment,
    nodes: Mapping[str, str] = {},
    *,
    driver: str = "",
    trace: str = "",
    known: "KnownOptions | None" = None,
) -> tuple[PodSpec, ...]:
    """Return the pods of a job, coordinator first.

    Args:
        runtime_dir: Its directory for sockets.
        pod_environment: What pods need to know of the appliance.
        nodes: Node of each pod by member name; empty if there is only one.
        driver: What a driver runs, as JSON; empty for other jobs.
        trace: The job's place in a trace; empty for a job that is not traced.
        known: Options of alike jobs' pods in the same environment.
    """
    known = known or KnownOptions()
    members = [
        (role, index, nodes.get(member_name(role, index), "") if nodes else "")
        for role, index in _members(job)
    ]
    pod_nodes = _pod_nodes(job, pod_environment, nodes)
    work_dir = Path(job.work_dir)
    shares = known.shares(tuple(members), pod_environment)
    common = _Common(
        job=job,
        pod_environment=pod_environment,
        options=_common(job, pod_environment, is_spread=bool(pod_nodes), is_traced=bool(trace)),
        streams=StreamMode.RING if pod_nodes else StreamMode(pod_environment.runs.streams),
        keep_weight_bytes=_keep_weight_bytes(job, pod_environment, pod_nodes),
        driver=driver,
    )
    options_of = {alike: known.options(alike[0], common, share) for alike, share in shares.items()}
    return tuple(
        PodSpec(
            job=job.id,
            role=role,
            index=index,
            runtime_dir=runtime_dir,
            work_dir=work_dir,
            management_address=pod_environment.management_address,
            options=options_of[role, node],
            nodes=pod_nodes,
            node=node,
            trace=trace,
        )
        for role, index, node in members
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Common:
    """What all pods of a job have in common.

    Attributes:
        pod_environment: What pods need to know of the appliance.
        options: What every pod is told, by field.
        streams: How weights reach the systems.
        keep_weight_bytes: What each system may keep of them within a step.
        driver: What a driver runs, as JSON.
    """

    job: JobRecord
    pod_environment: PodEnvironment
    options: Mapping[str, Any]  # `Any`: keyword arguments, each of the type of its field
    streams: StreamMode
    keep_weight_bytes: int
    driver: str


def _common(
    job: JobRecord, pod_environment: PodEnvironment, *, is_spread: bool, is_traced: bool
) -> Mapping[str, Any]:
    """Return the options common to all pods of a job.

    Args:
        pod_environment: What pods need to know of the appliance.
        is_spread: Whether they are on several nodes.
        is_traced: Whether they are traced.
    """
    identity = pod_environment.stream_identity
    return {
        "job_type": job.type,
        "user_uid": _user_id(job.user.uid),
        "user_gid": _user_id(job.user.gid),
        "stall_seconds": pod_environment.runs.stall_seconds,
        "stream_key": job_key(pod_environment.stream_secret, job.id) if is_spread else "",
        "stream_identity": identity if is_spread else None,
        "otlp": pod_environment.otlp if is_traced else "",
    }


def _pod_nodes(
    job: JobRecord, pod_environment: PodEnvironment, nodes: Mapping[str, str]
) -> Mapping[str, str]:
    pod_nodes = dict(nodes)
    if not pod_nodes and pod_environment.runs.has_network:
        names = [member_name(role, index) for role, index in _members(job)]
        pod_nodes = dict(zip(names, names, strict=True))
    if pod_nodes and pod_environment.is_remote:
        pod_nodes[MANAGEMENT] = MANAGEMENT
    return pod_nodes


def _keep_weight_bytes(
    job: JobRecord, pod_environment: PodEnvironment, pod_nodes: Mapping[str, str]
) -> int:
    """Return what systems may keep of the weights; nothing if all get them in shared memory.

    A compile counts the memory for it if the job that follows may be on several nodes.
    """
    systems = range(job.num_systems if job.type.has_gang else 0)
    pods = swarmx_tree(max(1, job.num_systems), fan_out=job.requirements.fan_out)
    is_near = all(
        pod_nodes.get(member_name(Role.CHIEF, index))
        == pod_nodes.get(member_name(Role.BROADCASTREDUCE, pod_above(pods, index).index))
        for index in systems
    )
    if not pod_nodes or (systems and is_near):
        return 0
    return pod_environment.runs.keep_weight_bytes


def _user_id(number: int) -> int | None:
    return number if number >= 0 else None


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


def _memory_bytes(role: Role, job: JobRecord) -> int:
    """Return what a pod counts for on its node; of alike nodes' pods the largest is known."""
    kind = POD_KINDS.get(main_pod_kind(job.type) if role is Role.COORDINATOR else role.value)
    demands = (each.memory_bytes for each in job.requirements.pods if each.role == kind)
    return max(demands, default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Share:
    """What a pod may use of its node.

    Attributes:
        num_alike: Pods of its role that the job has on that node, itself among them.
    """

    num_threads: int
    num_alike: int


_Members = tuple[tuple[Role, int, str], ...]
_Shares = Mapping[tuple[Role, str], _Share]

_ALIKE = (Role.WEIGHT, Role.BROADCASTREDUCE, Role.CHIEF, Role.ACTIVATION)
"""Roles whose options say nothing of one job alone, as all do that serve clients or read files."""

_NUM_KNOWN = 256


class KnownOptions:
    """What was made for earlier jobs, in one environment; of a busy queue most jobs are alike."""

    def __init__(self) -> None:
        self._shares: dict[_Members, _Shares] = {}
        self._options: dict[tuple[Hashable, ...], PodOptions] = {}

    def shares(self, members: _Members, pod_environment: PodEnvironment) -> _Shares:
        """Return the shares of the pods of a job."""
        found = self._shares.get(members)
        if found is None:
            _make_room(self._shares)
            found = self._shares[members] = _shares(members, pod_environment)
        return found

    def options(self, role: Role, common: _Common, share: _Share) -> PodOptions:
        """Return the options of the pods of a role."""
        job, given = common.job, common.options
        if role not in _ALIKE or job.type.is_sdk or given["stream_key"]:
            return _options(role, common, share)
        key = (
            *(role, share, job.type, job.user.uid, job.user.gid, given["otlp"]),
            *(job.requirements.pods, job.requirements.planned_memory),
            *(common.streams, common.keep_weight_bytes),
        )
        found = self._options.get(key)
        if found is None:
            _make_room(self._options)
            found = self._options[key] = _options(role, common, share)
        return found


def _make_room(known: dict[Any, Any]) -> None:
    if len(known) >= _NUM_KNOWN:
        known.clear()


def _options(role: Role, common: _Common, share: _Share) -> PodOptions:
    """Return the options of the pods of a role on a node."""
    job, pod_environment = common.job, common.pod_environment
    options = {
        **common.options,
        "pod_memory_bytes": _memory_bytes(role, job),
        "planned_memory_bytes": dict(job.requirements.planned_memory).get(role, 0),
    }
    if job.type.is_sdk:
        return SdkPodOptions(**options, **_served(common), systems=tuple(job.systems))
    if role is Role.COORDINATOR:
        return _coordinator(common, options)
    if role is Role.DRIVER:
        return DriverPodOptions(
            **options,
            driver=common.driver,
            token=pod_environment.driver_tokens.mint(job.id),
            user_name=job.user.name,
            client_config=pod_environment.client_config,
        )
    return _of_gang(role, common, options | {"torch_threads": share.num_threads}, share)


# `Any`: keyword arguments, each of the type of its field.
def _of_gang(role: Role, common: _Common, options: Mapping[str, Any], share: _Share) -> PodOptions:
    runs, job = common.pod_environment.runs, common.job
    machine_code = common.pod_environment.machine_code
    if role is Role.WEIGHT:
        return WeightPodOptions(
            **options,
            machine_code=machine_code,
            memory_bytes=runs.memoryx_bytes,
            pods_here=1 if common.pod_environment.has_pod_limits else share.num_alike,
        )
    if role is Role.CHIEF:
        return ChiefPodOptions(
            **options,
            machine_code=machine_code,
            streams=common.streams,
            keep_weight_bytes=common.keep_weight_bytes,
            device=Device(runs.csx_device),
            machine=runs.machine,
            pace=runs.pace,
        )
    if role is Role.BROADCASTREDUCE:
        return SwarmxPodOptions(
            **options, streams=common.streams, keep_weight_bytes=common.keep_weight_bytes
        )
    if role is Role.WORKER:
        return WorkerPodOptions(
            **options,
            request_path=_request_path(job),
            num_systems=job.num_systems,
            workers_per_system=job.workers_per_system,
        )
    return ActivationPodOptions(**options)


def _coordinator(common: _Common, options: Mapping[str, Any]) -> CoordinatorPodOptions:
    job, pod_environment = common.job, common.pod_environment
    runs = pod_environment.runs
    version, githash = client_build(job.client_release)
    return CoordinatorPodOptions(
        **{**options, "torch_threads": 1},
        **_served(common),
        num_systems=job.num_systems,
        workers_per_system=job.workers_per_system,
        num_shards=job.requirements.num_shards,
        fan_out=job.requirements.fan_out,
        precision=Precision(runs.precision),
        machine=runs.machine,
        wafer_bytes=runs.wafer_bytes or None,
        execution=runs.execution,
        cluster_systems=pod_environment.cluster_systems,
        memory_nodes=pod_environment.memory_nodes,
        keep_weight_bytes=common.keep_weight_bytes,
        kernel_tables=(
            pod_environment.compile_cache.kernel_tables_of(job.user.uid)
            if runs.measures_kernels
            else None
        ),
        client_version=version,
        client_githash=githash,
    )


def _served(common: _Common) -> Mapping[str, Any]:
    """Return what a pod needs that clients speak to."""
    pod_environment = common.pod_environment
    return {
        "request_path": _request_path(common.job),
        "compile_root": pod_environment.compile_cache.root_of(common.job.user.uid),
        "service_authority": common.job.service_authority,
        "bind_host": pod_environment.bind_host,
        "public_host": pod_environment.public_host,
        "tls_cert": pod_environment.tls_cert,
        "tls_key": pod_environment.tls_key,
    }


def _request_path(job: JobRecord) -> Path:
    """Return the file with the client's serialised request."""
    return Path(job.work_dir) / REQUEST_FILE


def _shares(
    members: Sequence[tuple[Role, int, str]], pod_environment: PodEnvironment
) -> Mapping[tuple[Role, str], _Share]:
    """Return the share of each pod by its role and its node.

    The systems of a node share its cores, and those of a machine with several nodes the machine's;
    so do weight pods, with half of them.
    """
    cores = pod_environment.node_cores
    own = NodeCores(num_cores=pod_environment.num_cores)
    here: Counter[tuple[Role, str]] = Counter()
    on_machine: Counter[tuple[Role, str]] = Counter()
    for role, _, node in members:
        here[role, node] += 1
        on_machine[role, cores.get(node, own).machine] += 1
    parts = {Role.CHIEF: 1, Role.WEIGHT: 2}
    found: dict[tuple[Role, str], _Share] = {}
    for (role, node), count in here.items():
        of_node = cores.get(node, own)
        alike = on_machine[role, of_node.machine]
        threads = of_node.share(count, alike, part=parts[role]) if role in parts else 1
        found[role, node] = _Share(num_threads=threads, num_alike=count)
    return found
