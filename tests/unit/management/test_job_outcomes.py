"""What is kept of how a job went: its numbers, and the pod that failed."""

import pytest

from appliance.core.cluster.drivers import POD_FAILED_EVENT
from appliance.core.cluster.jobs import Phase
from appliance.core.cluster.records import EventRecord, PodRecord
from appliance.core.cluster.run import Point
from appliance.core.ids import PodName, Role
from tests.support.management import new_job
from tests.support.reconciling import running_harness


def run(harness, name):
    job = harness.submit(new_job(name))
    harness.until(lambda: harness.jobs.load(job).phase is Phase.INITIALIZING)
    return job


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ((1.0, 2.0), "the client says so"),
        ((1.0, None), "the client says so; loss is NaN or infinite since step 2"),
    ],
)
def test_the_end_of_a_job_says_what_its_numbers_were(tmp_path, values, said):
    with running_harness(tmp_path) as harness:
        job = run(harness, "wsjob-a")
        at = harness.state.clock.now()
        points = [
            Point(name="output_loss", session=1, step=step, value=value, at=at)
            for step, value in enumerate(values, start=1)
        ]
        harness.state.series.add(job, points)
        harness.jobs.end(job, Phase.SUCCEEDED, "the client says so")
        harness.until(lambda: harness.jobs.load(job).phase is Phase.SUCCEEDED)
        assert harness.jobs.load(job).message == said


def test_a_pod_that_failed_by_itself_says_so_though_its_process_ends_in_order(tmp_path):
    with running_harness(tmp_path) as harness:
        job, other = run(harness, "wsjob-a"), harness.submit(new_job("wsjob-b"))
        failed, bystander = PodName(f"{job}-worker-0"), PodName(f"{other}-worker-0")
        records = [
            PodRecord(name=pod, job=its, role=Role.WORKER, index=0, node="n")
            for pod, its in ((failed, job), (bystander, other))
        ]
        harness.state.pods.create(records)
        events = [
            EventRecord(
                job=job,
                at=harness.state.clock.now(),
                reason=POD_FAILED_EVENT,
                message="KeyError: 7",
                subject=pod,
                is_warning=True,
            )
            for pod in (failed, bystander)
        ]
        harness.jobs.reported(job, phase="", message="", pods=[], events=events)
        harness.state.pods.set_ended(
            failed, exit_code=0, message="exited with code 0", at=harness.state.clock.now()
        )
        (ended,) = (pod for pod in harness.state.pods.of_job(job) if pod.name == failed)
        assert (ended.phase, ended.exit_code, ended.message) == ("Failed", 1, "KeyError: 7")
        (left,) = (pod for pod in harness.state.pods.of_job(other) if pod.name == bystander)
        assert left.ended_at is None, "a job speaks for its own pods alone"
