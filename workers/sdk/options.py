"""The options of an SDK job's pod, and the limits of its job."""

from dataclasses import dataclass
from pathlib import Path

from appliance.core.cluster.jobs import JobType
from appliance.core.errors import InternalError
from appliance.core.pods.pod_options import SdkPodOptions
from appliance.core.pods.pod_spec import PodSpec
from protos.cluster.cluster_pb2 import SdkCompileJobRequest, SdkExecuteJobRequest

_SYSTEM_PORT = 9000
_GIB = 1 << 30
_TRACE_LABEL = "fabric-trace"
_YES = ("1", "on", "true")


@dataclass(frozen=True, slots=True, kw_only=True)
class SdkLimits:
    """How much one SDK job may use; each bound has an error that names it.

    Attributes:
        upload_bytes: Bytes of all files that a client sends.
        upload_files: Number of those files.
        unpacked_bytes: Bytes that an archive may unpack to.
        unpacked_files: Number of files likewise.
        message_bytes: Bytes of a file that is downloaded, as one message carries it.
        trace_bytes: Bytes of a trace of the fabric that is kept with the job.
        kept_bytes: Bytes of compiled programs that are kept with the job.
        output_bytes: Bytes of a command's output that are answered; the rest is in the log.
        compile_seconds: How long one compile may take.
        cache_bytes: Bytes that compiled programs may take in the cache of all users.
        memory_bytes: Memory of each program of the user, as the request says; 0 for no limit.
    """

    upload_bytes: int = 16 * _GIB
    upload_files: int = 100_000
    unpacked_bytes: int = 32 * _GIB
    unpacked_files: int = 200_000
    message_bytes: int = 2 * _GIB - 1024
    trace_bytes: int = 256 << 20
    kept_bytes: int = 256 << 20
    output_bytes: int = 16 << 20
    compile_seconds: float = 1800.0
    cache_bytes: int = 8 * _GIB
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SdkOptions:
    """The options of an SDK job's pod; each comes from the spec's option of the same name.

    Attributes:
        job_type: Which of the two kinds of SDK jobs.
        compile_root: Directory under which every compile directory lies.
        compile_dir: The one that the client names, relative to that.
        service_authority: By which the job's client calls, and nobody else can.
        bind_host: Address at which clients are served.
        public_host: Name by which they reach it.
        tls_cert: Certificate chain, PEM; None serves plain text.
        tls_key: Its key, PEM.
        user_uid: The job's user, whose rights its programs have; None means ours.
        user_gid: The job's group, likewise.
        system_address: Address of the system that the job holds; empty for none.
        is_traced: Whether every run of the job is traced, by the job's label `fabric-trace`.
        limits: How much the job may use.
    """

    job_type: JobType
    compile_root: Path
    compile_dir: str
    service_authority: str
    bind_host: str
    public_host: str
    tls_cert: Path | None
    tls_key: Path | None
    user_uid: int | None
    user_gid: int | None
    system_address: str
    is_traced: bool
    limits: SdkLimits

    def __post_init__(self) -> None:
        if not self.service_authority:
            raise InternalError("An SDK pod without an authority would answer nobody.")

    @property
    def owner_uid(self) -> int:
        """User id of the job's owner; -1 if that is the user we run as."""
        return -1 if self.user_uid is None else self.user_uid

    @classmethod
    def of(cls, spec: PodSpec) -> "SdkOptions":
        """Return the options in a pod's spec, and what the client's request adds."""
        options = spec.options_of(SdkPodOptions)
        job_type = options.job_type
        if options.request_path is None or options.compile_root is None:
            raise InternalError("An SDK pod is not told its request or the compile cache.")
        data = options.request_path.read_bytes()
        kind = SdkCompileJobRequest if job_type is JobType.SDK_COMPILE else SdkExecuteJobRequest
        request = kind.FromString(data)
        return cls(
            job_type=job_type,
            compile_root=options.compile_root,
            compile_dir=(
                request.compile_dir_relative_path
                if isinstance(request, SdkCompileJobRequest)
                else ""
            ),
            service_authority=options.service_authority,
            bind_host=options.bind_host,
            public_host=options.public_host,
            tls_cert=options.tls_cert,
            tls_key=options.tls_key,
            user_uid=options.user_uid,
            user_gid=options.user_gid,
            system_address=f"{options.systems[0]}:{_SYSTEM_PORT}" if options.systems else "",
            is_traced=request.debug_args.debug_mgr.labels.get(_TRACE_LABEL, "") in _YES,
            limits=SdkLimits(memory_bytes=_most_memory(request)),
        )


def _most_memory(request: SdkCompileJobRequest | SdkExecuteJobRequest) -> int:
    """Return the memory that the request asks for, which is the most that its programs may use."""
    tasks = request.job_mode.cluster_details.tasks
    return max((int(task.resource_info.memory_bytes) for task in tasks), default=0)
