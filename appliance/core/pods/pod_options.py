"""The options of each role of pod: management writes them, the roles read them.

One frozen class for each role. `options_text` writes them into a pod's spec, by their fields' names
and types; a test checks that management sets every field and the role's program reads it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from appliance.core.cluster.jobs import JobType
from appliance.core.cluster.liveness import DEFAULT_STALL_SECONDS
from appliance.core.cluster.swarmx_tree import MAX_FAN_OUT
from appliance.core.ids import Role
from appliance.core.plans.plan import Execution, Precision
from appliance.core.plans.shard_count import ONE_NODE, MemoryNodes
from appliance.core.quick_init import quick_init

Own = TypeVar("Own", bound="PodOptions")


class Device(StrEnum):
    """What a simulated system computes on."""

    CPU = "cpu"
    CUDA = "cuda"


class StreamMode(StrEnum):
    """How the loads of a layer step reach the systems."""

    RING = "ring"
    """SwarmX copies them into a ring that all systems read: each byte once, and a system needs
    memory for three layer steps only."""
    MAPPED = "mapped"
    """Every system maps MemoryX's store, read-only, and computes on it in place: no byte is copied.
    An update overwrites a tensor only after every system has computed with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodOptions:
    """The options of every pod.

    Attributes:
        job_type: What kind of job it belongs to.
        user_uid: The job's user, whose rights its programs have; None means ours.
        user_gid: The job's group, likewise.
        stall_seconds: How long a job may not move before it fails.
        stream_host: Address at which it listens for, and is reached by, other nodes; empty for
            loopback.
        stream_key: The job's secret, which pods of other nodes know.
        stream_identity: File with the key and certificate for encrypted connections; None for
            plain ones.
        otlp: Where traces go; empty for nowhere.
        torch_threads: Threads for computing: its share of its node's cores; None leaves it to it.
        pod_memory_bytes: Memory that it counts for on its node; 0 for none.
        planned_memory_bytes: Memory that its plan needs of it, beyond that of a pod without one; 0
            if unknown.
        user_variables: Names of variables of its container that its user's programs have, too.
    """

    job_type: JobType = JobType.EXECUTE
    user_uid: int | None = None
    user_gid: int | None = None
    stall_seconds: float = DEFAULT_STALL_SECONDS
    stream_host: str = ""
    stream_key: str = field(default="", repr=False)
    stream_identity: Path | None = None
    otlp: str = ""
    torch_threads: int | None = None
    pod_memory_bytes: int = 0
    planned_memory_bytes: int = 0
    user_variables: tuple[str, ...] = ()

    def files(self) -> Mapping[str, Path]:
        """Return the files of management's own node that it reads, by the name of the field."""
        return _without_none(stream_identity=self.stream_identity)

    def with_files(self: Own, moved: Mapping[str, Path]) -> Own:
        """Return the options with those of `files` that lie elsewhere for this pod."""
        mine: dict[str, Any] = {n: path for n, path in moved.items() if n in self.files()}
        return replace(self, **mine)

    def directories(self) -> tuple[Path, ...]:
        """Return the directories that it shares with pods of other jobs."""
        return ()

    def at(self: Own, address: str, public_host: str) -> Own:
        """Return the options of the pod on a node with an address of its own."""
        return replace(self, stream_host=address)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingPodOptions(PodOptions):
    """The options of a pod that serves clients.

    Attributes:
        request_path: File with the client's serialised request for the job.
        compile_root: Directory under which every compile directory lies.
        service_authority: By which the job's client calls, and nobody else can.
        bind_host: Address at which clients are served, in figures.
        public_host: Name by which they reach it.
        tls_cert: Certificate chain, PEM; None serves plain text.
        tls_key: Its key, PEM.
    """

    request_path: Path | None = None
    compile_root: Path | None = None
    service_authority: str = field(default="", repr=False)
    bind_host: str = "127.0.0.1"
    public_host: str = "localhost"
    tls_cert: Path | None = None
    tls_key: Path | None = None

    def files(self) -> Mapping[str, Path]:
        """Return its certificate and key, too."""
        identity = self.stream_identity
        return _without_none(tls_cert=self.tls_cert, tls_key=self.tls_key, stream_identity=identity)

    def directories(self) -> tuple[Path, ...]:
        """Return the compile cache."""
        return (self.compile_root,) if self.compile_root else ()

    def at(self: "Serving", address: str, public_host: str) -> "Serving":
        """Return the options with which it serves clients there, too."""
        return replace(
            self,
            stream_host=address,
            bind_host=address,
            public_host=public_host or address,
        )


Serving = TypeVar("Serving", bound=ServingPodOptions)


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorPodOptions(ServingPodOptions):
    """The options of a coordinator.

    Attributes:
        num_systems: Systems of an execute job; 0 for a compile.
        workers_per_system: Input workers for each, likewise.
        num_shards: Weight pods of the whole job.
        fan_out: Children that a SwarmX pod of the job has at most.
        precision: How 16-bit formats are carried.
        machine: Name or JSON table of the machine that simulated times come from.
        wafer_bytes: Memory for activations of each system; None for no limit.
        execution: How the wafer is used unless a job says it, or `auto`.
        cluster_systems: Systems of the whole cluster; 0 if unknown.
        memory_nodes: Nodes for MemoryX that a job may have.
        keep_weight_bytes: What each system may keep of the weights within a step.
        kernel_tables: Directory of what was measured of kernels; None has them chosen by rule.
        client_version: Version that the client is told.
        client_githash: Build that the client insists on.
    """

    num_systems: int = 0
    workers_per_system: int = 0
    num_shards: int = 1
    fan_out: int = MAX_FAN_OUT
    precision: Precision = Precision.F32
    machine: str = "cs2"
    wafer_bytes: int | None = None
    execution: str = Execution.WEIGHT_STREAMING.value
    cluster_systems: int = 0
    memory_nodes: MemoryNodes = ONE_NODE
    keep_weight_bytes: int = 0
    kernel_tables: Path | None = None
    client_version: str = ""
    client_githash: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SdkPodOptions(ServingPodOptions):
    """The options of an SDK job's pod.

    Attributes:
        systems: Names of the systems that the job holds.
    """

    systems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputingPodOptions(PodOptions):
    """The options of a pod that compiles loops to machine code.

    Attributes:
        machine_code: Directory of machine code that pods before it have compiled; None keeps none.
    """

    machine_code: Path | None = None

    def directories(self) -> tuple[Path, ...]:
        """Return that directory."""
        return (self.machine_code,) if self.machine_code else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightPodOptions(ComputingPodOptions):
    """The options of a MemoryX pod.

    Attributes:
        memory_bytes: Memory that MemoryX of the job may use on a node; 0 for what there is.
        pods_here: Weight pods that the job has on the node, itself among them.
    """

    memory_bytes: int = 0
    pods_here: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ChiefPodOptions(ComputingPodOptions):
    """The options of a system's pod.

    Attributes:
        streams: How weights reach it.
        keep_weight_bytes: What it may keep of the weights within a step, the same for all systems.
        device: What it computes on.
        machine: Name or JSON table of the machine whose times are simulated.
        pace: Wall seconds per simulated second; 0 sets no pace.
    """

    streams: StreamMode = StreamMode.MAPPED
    keep_weight_bytes: int = 0
    device: Device = Device.CPU
    machine: str = "cs2"
    pace: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SwarmxPodOptions(PodOptions):
    """The options of a SwarmX pod.

    Attributes:
        streams: How weights reach the systems.
        keep_weight_bytes: What each system keeps of them within a step; it is not sent again.
    """

    streams: StreamMode = StreamMode.MAPPED
    keep_weight_bytes: int = 0


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPodOptions(PodOptions):
    """The options of an input worker.

    Attributes:
        request_path: File with the client's serialised request for the job.
        num_systems: Systems of the job.
        workers_per_system: Input workers for each.
    """

    request_path: Path | None = None
    num_systems: int = 1
    workers_per_system: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivationPodOptions(PodOptions):
    """The options of the pod that gives a system its batches: those of every pod."""


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class DriverPodOptions(PodOptions):
    """The options of a driver.

    Attributes:
        driver: The run's `DriverSpec`, as JSON.
        token: By which the jobs of its script are known as the driver's.
        user_name: Name of the user whose script it is.
        client_config: The client's configuration file, for scripts that do not name one; None where
            they have another way to it.
        path: Folders of programs, as in PATH, for scripts whose own PATH has none; empty for the
            system's.
        redacted_variables: Those of `user_variables` whose values are kept out of the script's log.
    """

    driver: str = ""
    token: str = field(default="", repr=False)
    user_name: str = ""
    client_config: Path | None = None
    path: str = ""
    redacted_variables: tuple[str, ...] = ()

    def files(self) -> Mapping[str, Path]:
        """Return the configuration file, too."""
        return _without_none(stream_identity=self.stream_identity, client_config=self.client_config)


OPTIONS_OF_ROLE: Mapping[Role, type[PodOptions]] = {
    Role.COORDINATOR: CoordinatorPodOptions,
    Role.WEIGHT: WeightPodOptions,
    Role.BROADCASTREDUCE: SwarmxPodOptions,
    Role.CHIEF: ChiefPodOptions,
    Role.ACTIVATION: ActivationPodOptions,
    Role.WORKER: WorkerPodOptions,
    Role.DRIVER: DriverPodOptions,
}


def options_type(role: Role, job_type: JobType) -> type[PodOptions]:
    """Return the options class of a pod; an SDK job's pod has the coordinator's role."""
    if role is Role.COORDINATOR and job_type.is_sdk:
        return SdkPodOptions
    return OPTIONS_OF_ROLE[role]


def for_role(role: Role, common: PodOptions) -> PodOptions:
    """Return the options of a role that has only those of every pod."""
    options = {each.name: getattr(common, each.name) for each in fields(PodOptions)}
    return options_type(role, common.job_type)(**options)


def _without_none(**paths: Path | None) -> Mapping[str, Path]:
    return {name: path for name, path in paths.items() if path is not None}
