"""Traces of a running appliance: a caller's place is taken up, failures show, nothing is needed."""

from protos.cluster import cluster_pb2 as pb
from tests.support.appliance_process import USER, execute_request, running_appliance, wait_for
from tests.support.files import put
from tests.support.otlp import receiving
from tests.support.ports import free_port

TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def named(receiver, name):
    return [span for span in receiver.spans if span.name == name]


def submit(appliance, *metadata):
    return appliance.cluster.InitExecuteJob(
        execute_request(1, 1), metadata=(*USER, *metadata)
    ).job_id


def test_a_job_is_below_the_call_of_whoever_submits_it(tmp_path):
    with (
        receiving() as receiver,
        running_appliance(tmp_path, "--otlp", receiver.endpoint) as running,
    ):
        job = submit(running, ("traceparent", f"00-{TRACE}-{CALLER}-01"))
        running.wait_ready(job)
        put(running.runtime_dir(job) / "exit", "3")
        wait_for(lambda: named(receiver, "job execute"), what="the job's span")
        wait_for(lambda: named(receiver, "phase FAILING"), what="the phases' spans")
        (call,) = named(receiver, "cluster.cluster_mgmt_pb.ClusterManagement/InitExecuteJob")
        (span,) = named(receiver, "job execute")
        phases = [each for each in receiver.of_job(job) if each.name.startswith("phase")]

    assert (call.trace, call.parent) == (TRACE, CALLER)
    assert (span.trace, span.parent) == (TRACE, call.id)
    assert (span.fields["wsc.phase"], span.is_error) == ("FAILED", True)
    assert {each.parent for each in phases} == {span.id}
    assert "phase FAILING" in {each.name for each in phases}


def test_jobs_run_while_nobody_takes_the_traces(tmp_path):
    with running_appliance(tmp_path, "--otlp", f"http://127.0.0.1:{free_port()}") as running:
        job = submit(running)
        assert running.wait_ready(job)[-1].is_ready
        put(running.runtime_dir(job) / "exit", "0")
        wait_for(
            lambda: running.status(job).status == pb.JOB_STATUS_SUCCEEDED, what="the job's end"
        )


def test_nothing_is_traced_unless_it_is_asked_for(tmp_path):
    with running_appliance(tmp_path) as running:
        job = submit(running, ("traceparent", f"00-{TRACE}-{CALLER}-01"))
        running.wait_ready(job)
        assert not (tmp_path / "jobs" / job / "trace").exists()
