"""When a detached run's script is started again, from what is kept of the run."""

import pytest

from appliance.core.cluster.drivers import (
    DISRUPTION_EVENT,
    NODE_LOST_EVENT,
    POD_LOST_EVENT,
    PREEMPTION_EVENT,
    DriverSpec,
    FailureCategory,
    RestartPolicy,
)
from appliance.core.cluster.jobs import JobType
from appliance.core.cluster.records import EventRecord
from appliance.core.ids import PodName, Role
from appliance.core.pods.end_cause import EndCause
from appliance.management.jobs.driver_restarts import DriverRestarts
from appliance.management.reconciler.job_machine import PodExited
from appliance.management.reconciler.mailbox import Mailbox
from tests.support.management import new_job, opened_state

POD = RestartPolicy(on=(FailureCategory.POD,), limit=1)


def pod_end(exit_code=137, **changes):
    name = PodName("wsjob-d-driver-0")
    reason = f"exited with code {exit_code}"
    return PodExited(pod=name, role=Role.DRIVER, exit_code=exit_code, reason=reason, **changes)


def make_driver(state, restart=POD):
    spec = DriverSpec(argv=("train",), work_dir="/", restart=restart)
    with state.database.batch():
        driver = state.jobs.create(new_job("wsjob-d", type=JobType.DRIVER, num_systems=0))
        state.driver_specs.keep(driver.id, spec)
    return driver


def tell(state, job, reason, message):
    event = EventRecord(job=job, at=state.clock.now(), reason=reason, message=message, subject=job)
    state.jobs.add_event(event)


def test_a_lost_pod_is_started_again_as_often_as_the_policy_says(tmp_path):
    with opened_state(tmp_path) as state:
        driver, restarts = make_driver(state), DriverRestarts(state, Mailbox())
        assert "category pod" in restarts.pod_lost(driver, pod_end())
        assert restarts.count(driver.id) == 1
        assert restarts.pod_lost(driver, pod_end()) == ""
        assert restarts.count(driver.id) == 1


def test_a_pod_whose_end_its_launcher_has_not_told_is_lost_by_its_coordinators_word(tmp_path):
    with opened_state(tmp_path) as state:
        driver, restarts = make_driver(state), DriverRestarts(state, Mailbox())
        member = state.jobs.create(new_job("wsjob-1"))
        tell(state, member.id, POD_LOST_EVENT, "it ended")
        decision, count = restarts.ended(driver.id, 1)
        assert (decision.is_wanted, count) == (True, 1)
        assert "it ended" in decision.reason


def test_a_lost_node_is_another_category_than_a_lost_pod(tmp_path):
    with opened_state(tmp_path) as state:
        driver, restarts = make_driver(state), DriverRestarts(state, Mailbox())
        assert restarts.pod_lost(driver, pod_end(cause=EndCause.NODE_LOST)) == ""


def test_a_node_that_a_job_of_the_script_has_lost_is_known_by_its_event(tmp_path):
    with opened_state(tmp_path) as state:
        driver, restarts = make_driver(state), DriverRestarts(state, Mailbox())
        member = state.jobs.create(new_job("wsjob-1"))
        tell(state, member.id, NODE_LOST_EVENT, "wsjob-1-coordinator-0 was lost")
        decision, _ = restarts.ended(driver.id, 1)
        assert not decision.is_wanted
        assert "category node: wsjob-1-coordinator-0 was lost" in decision.reason


@pytest.mark.parametrize("whose", ["its own pod", "a pod of its script's job"])
def test_a_disrupted_run_is_started_again_without_a_policy_and_without_being_counted(
    tmp_path, whose
):
    with opened_state(tmp_path) as state:
        driver = make_driver(state, RestartPolicy())
        restarts = DriverRestarts(state, Mailbox())
        for number in range(1, 4):
            if whose == "its own pod":
                drained = pod_end(143, cause=EndCause.DRAINED, is_disruption=True)
                assert "wsjob-d-driver-0 exited with code 143" in restarts.pod_lost(driver, drained)
            else:
                member = state.jobs.create(new_job(f"wsjob-{number}"))
                tell(state, member.id, DISRUPTION_EVENT, "wsjob-1-chief-0 was evicted")
                decision, _ = restarts.ended(driver.id, 1)
                assert (decision.is_wanted, decision.is_counted) == (True, False)
            assert restarts.count(driver.id) == number
            state.clock.advance(1.0)
        assert restarts.pod_lost(driver, pod_end(143, cause=EndCause.DRAINED)) == ""


def test_a_pod_that_passes_on_how_its_script_has_ended_is_not_lost(tmp_path):
    with opened_state(tmp_path) as state:
        driver, restarts = make_driver(state), DriverRestarts(state, Mailbox())
        decision, count = restarts.ended(driver.id, 7)
        assert (decision.is_wanted, count) == (False, 0)
        assert restarts.pod_lost(driver, pod_end(7)) == ""
        assert restarts.last_words(driver) == ""


def test_the_last_words_of_a_script_are_those_of_its_last_start(tmp_path):
    with opened_state(tmp_path) as state:
        driver, restarts = make_driver(state), DriverRestarts(state, Mailbox())
        assert restarts.last_words(driver) == ""
        restarts.ended(driver.id, 7, "KeyError: 7")
        assert restarts.last_words(driver) == "KeyError: 7"
        restarts.ended(driver.id, 8)
        assert restarts.last_words(driver) == ""


def test_a_preempted_run_is_started_again_without_a_policy_and_without_being_counted(tmp_path):
    with opened_state(tmp_path) as state:
        driver = make_driver(state, RestartPolicy())
        restarts = DriverRestarts(state, Mailbox())
        for number in range(1, 4):
            member = state.jobs.create(new_job(f"wsjob-{number}"))
            tell(state, member.id, PREEMPTION_EVENT, "preempted by u")
            decision, count = restarts.ended(driver.id, 1)
            assert (decision.is_wanted, count) == (True, number)
            assert f"wsjob-{number} was preempted by u" in decision.reason
            state.clock.advance(1.0)
        decision, count = restarts.ended(driver.id, 1)
        assert (decision.is_wanted, count) == (False, 3)
