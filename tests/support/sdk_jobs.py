"""SDK jobs of an appliance, driven over the wire."""

import contextlib
import io
import os
import stat
import sys
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import grpc

from protos.appliance.common_config_pb2 import ClusterDetails, JobMode, ResourceInfo
from protos.cluster.cluster_pb2 import (
    CancelJobRequest,
    JobStatus,
    SdkCompileJobRequest,
    SdkExecuteJobRequest,
)
from protos.sdk import sdk_appliance_pb2 as pb
from protos.sdk.sdk_appliance_pb2_grpc import sdk_applianceStub
from protos.sdk.sdk_common_pb2 import StatusCode
from tests.support.appliance_process import USER, ApplianceProcess


def _may_run_our_python() -> bool:
    """Whether other users of this machine can run this interpreter, as they must for SDK jobs."""
    python = Path(sys.executable)
    parents = {*python.parents, *python.resolve().parents}
    return os.geteuid() != 0 or all(each.stat().st_mode & stat.S_IXOTH for each in parents)


OWNER = USER if _may_run_our_python() else (("auth-uid", "0"), ("auth-username", "root"))
"""Who submits the jobs: another user than we are, if one could run their programs."""

_Task = ClusterDetails.TaskInfo


@dataclass
class SdkJob:
    """A running SDK job and its service."""

    appliance: ApplianceProcess
    id: str
    channel: grpc.Channel
    stub: sdk_applianceStub

    def upload(self, *files: tuple[str, bytes], target: str, mode: str = "SDK_EXECUTE"):
        """Send files; returns the answer."""
        messages = (
            pb.SdkArtifactsArgs(
                file_name=name,
                data_chunk=data,
                num_bytes=len(data),
                total_bytes=len(data),
                compile_hash=target,
                mode=mode,
            )
            for name, data in files
        )
        return self.stub.sdk_upload_files(messages, timeout=120)

    def upload_artifact(self, target: str, **members: bytes):
        """Send an artifact of these files."""
        return self.upload((f"{target}.tar.gz", archive(members.items())), target=target)

    def compile(self, target: str, options: str, **sources: bytes):
        """Send sources and compile them; returns the compiler's answer."""
        files = tuple((f"{name}.csl", text) for name, text in sources.items())
        taken = self.upload(*files, target=target, mode="SDK_COMPILE")
        if taken.code == StatusCode.SDK_RT_ALREADY_COMPILED:
            return taken
        arguments = pb.SdkCompilerArgs(compile_hash=target, options=options.split())
        return self.stub.sdk_compile(arguments, timeout=120)

    def run(self, *commands: str, target: str):
        """Run commands; returns the answer."""
        messages = (pb.SdkRunCommandParams(app_hash=target, command=each) for each in commands)
        return self.stub.sdk_run_command(messages, timeout=120)

    def read(self, name: str):
        """Return the only answer to a download."""
        (answer,) = self.stub.sdk_download_files(
            pb.SdkArtifactDownloadArgs(file_name=name), timeout=120
        )
        return answer

    def cancel(
        self,
        status: "JobStatus.ValueType" = JobStatus.JOB_STATUS_SUCCEEDED,
        message: str = "None",
    ) -> None:
        """End the job as its client does; returns when nothing of it runs any more."""
        request = CancelJobRequest(job_id=self.id, job_status=status, message=message)
        self.appliance.cluster.CancelJobV2(request, metadata=OWNER, timeout=120)

    @property
    def directory(self) -> Path:
        """Where its files are as long as it lives."""
        return self.appliance.runtime_dir(self.id) / "sdk"


@contextlib.contextmanager
def sdk_job(
    appliance: ApplianceProcess,
    *,
    has_system: bool = False,
    memory_bytes: int = 67 << 30,
    labels: Mapping[str, str] | None = None,
) -> Iterator[SdkJob]:
    """Submit an SDK job and connect to it; it is ended if the test has not done so."""
    if has_system:
        request = _execute_request(memory_bytes)
        job = appliance.cluster.InitSdkExecuteJob(request, metadata=OWNER).job_id
    else:
        request = _compile_request(memory_bytes)
        request.debug_args.debug_mgr.labels.update(labels or {})
        job = appliance.cluster.InitSdkCompileJob(request, metadata=OWNER).job_id
    ingress = appliance.wait_ready(job)[-1]
    assert ingress.is_ready, ingress.message
    options = [
        ("grpc.default_authority", ingress.service_authority),
        ("grpc.max_receive_message_length", -1),
    ]
    with grpc.insecure_channel(ingress.service_url, options=options) as channel:
        found = SdkJob(appliance, job, channel, sdk_applianceStub(channel))
        try:
            yield found
        finally:
            with contextlib.suppress(grpc.RpcError):  # it has ended
                found.cancel()


def archive(members: Iterable[tuple[str, bytes]]) -> bytes:
    """Return a tar.gz with these files."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz") as made:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            made.addfile(info, io.BytesIO(content))
    return target.getvalue()


def _resources(memory_bytes: int) -> ResourceInfo:
    return ResourceInfo(memory_bytes=memory_bytes, cpu_millicore=24000)


def _compile_request(memory_bytes: int) -> SdkCompileJobRequest:
    task = _Task(task_type=_Task.CRD, resource_info=_resources(memory_bytes))
    return SdkCompileJobRequest(
        job_mode=JobMode(job=JobMode.SDK_COMPILE, cluster_details=ClusterDetails(tasks=[task])),
        compile_dir_relative_path="sdk_cached_compile",
    )


def _execute_request(memory_bytes: int) -> SdkExecuteJobRequest:
    places = [_Task.TaskMap(task_id=_Task.TaskMap.TaskId(wse_ids=[0]))]
    tasks = [
        _Task(task_type=_Task.WRK, task_map=places, resource_info=_resources(memory_bytes)),
        _Task(task_type=_Task.WSE, task_map=places),
    ]
    return SdkExecuteJobRequest(
        job_mode=JobMode(job=JobMode.SDK_EXECUTE, cluster_details=ClusterDetails(tasks=tasks))
    )


EXAMPLES = Path(__file__).parents[2] / "examples"


def example_sources(example: str = "csl") -> dict[str, bytes]:
    """Return the files of an example of the documentation, as members of an artifact."""
    names = ("layout.csl", "pe.csl", "run.py")
    return {name: (EXAMPLES / example / name).read_bytes() for name in names}


def compile_command(*, width: int, height: int, n: int) -> str:
    """Return the command that compiles the example for so many PEs."""
    return (
        f"cslc layout.csl --fabric-dims={width + 7},{height + 2} --fabric-offsets=4,1 --memcpy "
        f"--channels=1 --params=width:{width},height:{height},n:{n} -o out"
    )
