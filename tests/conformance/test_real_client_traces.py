"""With `--otlp`, what the real client sets going is one tree of spans across all processes."""

import pytest

from tests.support.appliance import running_appliance
from tests.support.client import start_client
from tests.support.otlp import Span, receiving

pytestmark = [pytest.mark.slow, pytest.mark.client]

SERVICES = {
    "wsc-management",
    "wsc-coordinator",
    "wsc-weight",
    "wsc-broadcastreduce",
    "wsc-chief",
    "wsc-activation",
    "wsc-worker",
}


def roots_of(spans: list[Span]) -> list[Span]:
    ids = {span.id for span in spans}
    return [span for span in spans if span.parent not in ids]


def children_of(spans: list[Span], parent: Span) -> list[str]:
    return sorted(span.name for span in spans if span.parent == parent.id)


def test_the_spans_of_a_job_form_one_tree(tmp_path):
    with receiving() as receiver:
        with running_appliance(tmp_path / "data", "--otlp", receiver.endpoint) as running:
            start_client(
                tmp_path / "client", "--model", "mlp_sgd", "--steps", "2", address=running.address
            ).result()
            jobs = {job["spec"]["type"]: job["meta"]["name"] for job in running.jobs()}
        # The appliance is down, so everything has been sent.
        execute, compiled = receiver.of_job(jobs["execute"]), receiver.of_job(jobs["compile"])

    (root,) = roots_of(execute)
    assert root.name == "cluster.cluster_mgmt_pb.ClusterManagement/InitExecuteJob"
    assert root.parent == ""
    assert {span.service for span in execute} == SERVICES
    (job,) = [span for span in execute if span.name == "job execute"]
    assert job.parent == root.id
    assert (job.fields["wsc.phase"], job.is_error) == ("SUCCEEDED", False)
    below = children_of(execute, job)
    assert [name for name in below if name.startswith("phase")] == [
        f"phase {each}" for each in ("CREATED", "INITIALIZING", "QUEUED", "RUNNING", "SCHEDULED")
    ]
    assert [name for name in below if name.startswith("pod")] == [
        f"pod {each}"
        for each in ("activation", "broadcastreduce", "chief", "coordinator", "weight", "worker")
    ]
    by_id = {span.id: span for span in execute}
    (load,) = [
        span for span in execute if (span.service, span.name) == ("wsc-chief", "wsc.v1.Pod/Load")
    ]
    assert by_id[load.parent].service == "wsc-coordinator"
    assert all(job.start_ns <= span.start_ns <= span.end_ns for span in execute if span != root)

    (root,) = roots_of(compiled)
    assert root.name == "cluster.cluster_mgmt_pb.ClusterManagement/InitCompileJob"
    assert any(span.name == "cerebras.Appliance/UnaryCompile" for span in compiled)
