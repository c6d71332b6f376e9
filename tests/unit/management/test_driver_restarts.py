"""When a detached run's script is started again, from what is kept of the run."""

from appliance.core.cluster.drivers import (
    POD_LOST_EVENT,
    DriverSpec,
    FailureCategory,
    RestartPolicy,
)
from appliance.core.cluster.jobs import JobType
from appliance.core.cluster.records import EventRecord
from appliance.management.jobs.driver_restarts import DriverRestarts
from appliance.management.reconciler.mailbox import Mailbox
from appliance.management.reconciler.resumption import NODE_LOST
from tests.support.management import new_job, opened_state

POD = RestartPolicy(on=(FailureCategory.POD,), limit=1)
KILLED = "was killed by signal 9"


def make_driver(state, restart=POD):
    spec = DriverSpec(argv=("train",), work_dir="/", restart=restart)
    with state.database.batch():
        driver = state.jobs.create(new_job("wsjob-d", type=JobType.DRIVER, num_systems=0))
        state.driver_specs.keep(driver.id, spec)
    return driver


def preempt(state, job):
    event = EventRecord(
        job=job, at=state.clock.now(), reason="Preempted", message="preempted by u", subject=job
    )
    state.jobs.add_event(event)


def test_a_lost_pod_is_started_again_as_often_as_the_policy_says(tmp_path):
    with opened_state(tmp_path) as state:
        driver, restarts = make_driver(state), DriverRestarts(state, Mailbox())
        assert "category pod" in restarts.pod_lost(driver, 137, KILLED)
        assert restarts.count(driver.id) == 1
        assert restarts.pod_lost(driver, 137, KILLED) == ""
        assert restarts.count(driver.id) == 1


def test_a_pod_whose_end_its_launcher_has_not_told_is_lost_by_its_coordinators_word(tmp_path):
    with opened_state(tmp_path) as state:
        driver, restarts = make_driver(state), DriverRestarts(state, Mailbox())
        member = state.jobs.create(new_job("wsjob-1"))
        lost = EventRecord(
            job=member.id,
            at=state.clock.now(),
            reason=POD_LOST_EVENT,
            message="it ended",
            subject="p",
        )
        state.jobs.add_event(lost)
        decision, count = restarts.ended(driver.id, 1)
        assert (decision.is_wanted, count) == (True, 1)
        assert "it ended" in decision.reason


def test_a_lost_node_is_another_category_than_a_lost_pod(tmp_path):
    with opened_state(tmp_path) as state:
        driver, restarts = make_driver(state), DriverRestarts(state, Mailbox())
        assert restarts.pod_lost(driver, 137, f"{NODE_LOST}no answer") == ""


def test_a_pod_that_passes_on_how_its_script_has_ended_is_not_lost(tmp_path):
    with opened_state(tmp_path) as state:
        driver, restarts = make_driver(state), DriverRestarts(state, Mailbox())
        decision, count = restarts.ended(driver.id, 7)
        assert (decision.is_wanted, count) == (False, 0)
        assert restarts.pod_lost(driver, 7, "exited with code 7") == ""


def test_a_preempted_run_is_started_again_without_a_policy_and_without_being_counted(tmp_path):
    with opened_state(tmp_path) as state:
        driver = make_driver(state, RestartPolicy())
        restarts = DriverRestarts(state, Mailbox())
        for number in range(1, 4):
            member = state.jobs.create(new_job(f"wsjob-{number}"))
            preempt(state, member.id)
            decision, count = restarts.ended(driver.id, 1)
            assert (decision.is_wanted, count) == (True, number)
            assert f"wsjob-{number} was preempted by u" in decision.reason
            state.clock.advance(1.0)
        decision, count = restarts.ended(driver.id, 1)
        assert (decision.is_wanted, count) == (False, 3)
