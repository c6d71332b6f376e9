"""No path that a caller names makes the appliance read a file for them that is not theirs."""

import os
import zipfile
from pathlib import Path

import grpc
import pytest

from appliance.coordinator.compile.artifacts import ArtifactStore
from protos.cluster import cluster_pb2 as pb
from protos.csctl import api_pb2
from tests.support.appliance_process import USER, leave_artifact, running_appliance, wait_for

REFUSED = (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND)


@pytest.fixture(scope="module")
def appliance(tmp_path_factory):
    with running_appliance(tmp_path_factory.mktemp("data"), "--systems", "1") as running:
        yield running


def finalize(appliance, job, path):
    request = pb.CompileResultRequest(job_id=job, compile_artifact_dir=path)
    appliance.cluster.FinalizeCompileJob(request, metadata=USER, timeout=60)


def exported_names(appliance, job):
    """Return what a log export of a job with its artifacts holds."""
    wanted = api_pb2.CreateLogExportRequest(name=job, include_compile_artifacts=True)
    export = appliance.csctl.CreateLogExport(wanted, metadata=USER).export_id
    asked = api_pb2.GetLogExportRequest(export_id=export)
    completed = api_pb2.LOG_EXPORT_STATUS_COMPLETED
    wait_for(lambda: appliance.csctl.GetLogExport(asked, metadata=USER).status == completed)
    (archive,) = (appliance.data_dir / "exports").glob(f"{export}.zip")
    with zipfile.ZipFile(archive) as opened:
        root = f"log-export-{job}-{export.removeprefix('export-')[:8]}/"
        return {name.removeprefix(root) for name in opened.namelist()}


def test_a_compile_job_takes_no_other_directory_than_its_users_artifact(appliance, tmp_path):
    data = appliance.data_dir
    theirs = ArtifactStore(data / "compile", user=2000)
    directory = theirs.directory("cached_compile", "cs_theirs")
    theirs.store(directory, plan_text="plan", program="their secret model")
    for name, target in (("data", data), ("link", directory.path), ("proc", "/proc/self")):
        (data / "compile" / name).symlink_to(target)
    os.mkfifo(data / "compile" / "plan.txt")
    job = appliance.submit_compile()
    appliance.wait_ready(job)
    for path in (
        *(str(data), "/", "/etc", str(tmp_path), "/proc/self/root", "."),
        *("..", "../tls", f"{data}/compile/../tls", "data", "data/tls", "proc/cwd", "link"),
        *(str(directory), str(data / "compile"), "cached_compile", "cached_compile/none", "\0"),
    ):
        with pytest.raises(grpc.RpcError) as refused:
            finalize(appliance, job, path)
        assert refused.value.code() in REFUSED, (path, refused.value)
        exported = exported_names(appliance, job)
        assert exported == {"events.txt", "coordinator-0/dbg_crd_0.out"}, path

    artifact = leave_artifact(data)
    finalize(appliance, job, artifact)
    assert exported_names(appliance, job) >= {"cs_1/plan.txt", "cs_1/program.mlir"}
    (Path(artifact) / "program.mlir").unlink()
    (Path(artifact) / "program.mlir").symlink_to(data / "token.key")  # after the check
    wanted = api_pb2.CreateLogExportRequest(name=job, include_compile_artifacts=True)
    export = appliance.csctl.CreateLogExport(wanted, metadata=USER).export_id
    asked = api_pb2.GetLogExportRequest(export_id=export)
    failed = api_pb2.LOG_EXPORT_STATUS_FAILED
    wait_for(lambda: appliance.csctl.GetLogExport(asked, metadata=USER).status == failed)
