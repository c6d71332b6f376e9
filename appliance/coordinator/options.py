"""The options of a coordinator beside its identity."""

from dataclasses import dataclass
from pathlib import Path

from appliance.core.cluster.jobs import JobType
from appliance.core.errors import InternalError
from appliance.core.plans.plan import Execution, Precision
from appliance.core.plans.shard_count import MemoryNodes
from appliance.core.pods.pod_options import CoordinatorPodOptions
from appliance.core.pods.pod_spec import PodSpec
from appliance.wafer.hardware import Machine, parse_machine
from appliance.wire.requests.cluster_details import GangSize
from appliance.wire.requests.executions import parse_execution


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorOptions:
    """The options of a `coordinator` pod; each comes from the spec's option of the same name.

    Attributes:
        job_type: Compile or execute.
        gang: `num_systems`, `workers_per_system` and `num_shards` of an execute job.
        request_path: File with the serialised request that made the job.
        compile_root: Directory under which every compile directory lies.
        precision: How 16-bit formats are carried.
        machine: Machine table that simulated times come from.
        fan_out: Children of a SwarmX pod of an execute job at most.
        client_version: Version that the client is told.
        client_githash: Build that the client insists on.
        wafer_bytes: Memory for the activations on each system; None for no limit.
        execution: How the wafer is used unless a job says it; None leaves it to the compiler.
        cluster_systems: Systems of the whole cluster; 0 if unknown.
        memory_nodes: Nodes for MemoryX that a job may have; `num_nodes` and `node_bytes`, joined by
            a comma.
        keep_weight_bytes: What each system may keep of the weights within a step.
        kernel_tables: Directory of what was measured of kernels; None has them chosen by rule.
        service_authority: By which the job's client calls, and nobody else can.
        bind_host: Address at which clients are served, in figures.
        public_host: Name by which they reach it.
        stall_seconds: Longest wait of a system for one batch before the job counts as stalled.
        tls_cert: Certificate chain, PEM; None serves plain text.
        tls_key: Its key, PEM.
        user_uid: The job's user, whose rights the weight program has; None means ours.
        user_gid: The job's group, likewise.
    """

    job_type: JobType
    gang: GangSize
    request_path: Path
    compile_root: Path
    service_authority: str
    precision: Precision
    machine: Machine
    wafer_bytes: int | None
    execution: Execution | None
    fan_out: int
    client_version: str
    client_githash: str
    cluster_systems: int
    memory_nodes: MemoryNodes
    keep_weight_bytes: int
    kernel_tables: Path | None
    bind_host: str
    public_host: str
    stall_seconds: float
    tls_cert: Path | None
    tls_key: Path | None
    user_uid: int | None
    user_gid: int | None

    def __post_init__(self) -> None:
        if not self.service_authority:
            raise InternalError("A coordinator without an authority would answer nobody.")

    @property
    def owner_uid(self) -> int:
        """User id of the job's owner; -1 if that is the user we run as."""
        return -1 if self.user_uid is None else self.user_uid

    @classmethod
    def of(cls, spec: PodSpec) -> "CoordinatorOptions":
        """Return the options in a pod's spec."""
        options = spec.options_of(CoordinatorPodOptions)
        if options.request_path is None or options.compile_root is None:
            raise InternalError("A coordinator is not told its request or the compile cache.")
        return cls(
            job_type=options.job_type,
            gang=GangSize(
                # A compile job has none of either.
                num_systems=max(1, options.num_systems),
                workers_per_system=max(1, options.workers_per_system),
                num_shards=options.num_shards,
            ),
            request_path=options.request_path,
            compile_root=options.compile_root,
            service_authority=options.service_authority,
            precision=options.precision,
            machine=parse_machine(options.machine),
            wafer_bytes=options.wafer_bytes,
            execution=parse_execution(options.execution),
            fan_out=options.fan_out,
            client_version=options.client_version,
            client_githash=options.client_githash,
            cluster_systems=options.cluster_systems,
            memory_nodes=options.memory_nodes,
            keep_weight_bytes=options.keep_weight_bytes,
            kernel_tables=options.kernel_tables,
            bind_host=options.bind_host,
            public_host=options.public_host,
            stall_seconds=options.stall_seconds,
            tls_cert=options.tls_cert,
            tls_key=options.tls_key,
            user_uid=options.user_uid,
            user_gid=options.user_gid,
        )
