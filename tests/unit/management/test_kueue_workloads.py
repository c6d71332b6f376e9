"""What a job asks of Kueue, and what Kueue's conditions order."""

import datetime as dt
from dataclasses import replace
from pathlib import PurePosixPath

import pytest

from appliance.cluster.kubernetes.options import DataVolume, KubernetesOptions
from appliance.core.clock import SystemClock
from appliance.core.cluster.jobs import JobType, Phase
from appliance.core.cluster.requirements import Requirements
from appliance.core.errors import ClusterError
from appliance.core.ids import Role
from appliance.management.kubernetes import kueue_workloads as workloads
from appliance.management.kubernetes.kueue import Kueue
from appliance.management.kubernetes.kueue_workloads import HELD_BY, Order
from tests.support.management import new_job, opened_state

NOW = dt.datetime(2026, 11, 25, 12, tzinfo=dt.UTC)
OPTIONS = KubernetesOptions(
    image="wsc:1", data_volume=DataVolume(claim="c", path=PurePosixPath("/d")), kueue=True
)
OWNER = {"apiVersion": "wsc.open-appliance.org/v1", "kind": "WsJob", "name": "a", "uid": "u"}


@pytest.fixture
def job(tmp_path):
    with opened_state(tmp_path, SystemClock()) as state:
        yield state.jobs.create(new_job(workers_per_system=3))


def workload(**conditions):
    """Return a Workload with conditions: whether each holds, and its reason."""
    found = [
        {"type": kind, "status": str(holds), "reason": reason, "message": f"for {reason}"}
        for kind, (holds, reason) in conditions.items()
    ]
    metadata = {"name": "wsjob-a-kueue", "generation": 4}
    status = {"conditions": found, "admission": {"clusterQueue": "q"}}
    return {"metadata": metadata, "spec": {"queueName": "wafers"}, "status": status}


def conditions_of(status):
    return {each["type"]: (each["status"], each["reason"]) for each in status["conditions"]}


PENDING = workload(QuotaReserved=(False, "Pending"))
ADMITTED = workload(QuotaReserved=(True, "Reserved"), Admitted=(True, "Admitted"))
PREEMPTED = workload(
    QuotaReserved=(True, "Reserved"), Admitted=(True, "Admitted"), Evicted=(True, "Preempted")
)


def pod_sets_of(job):
    body = workloads.new_workload(job, OWNER, "wafers", OPTIONS, is_active=True)
    return {each["name"]: each for each in body["spec"]["podSets"]}


def requests_of(pod_set):
    return pod_set["template"]["spec"]["containers"][0]["resources"]["requests"]


def test_a_workload_asks_for_every_pod_and_for_the_systems(job):
    sets = pod_sets_of(job)
    assert {name: each["count"] for name, each in sets.items()} == {
        "coordinator": 1,
        "weight": 1,
        "broadcastreduce": 1,
        "chief": 2,
        "activation": 2,
        "worker": 6,
    }
    assert requests_of(sets["chief"])["wsc.open-appliance.org/systems"] == "1"
    assert requests_of(sets["worker"]) == {"cpu": "50m", "memory": "256Mi"}


def test_a_workload_asks_for_the_memory_that_the_plan_needs(job):
    planned = Requirements(planned_memory=((Role.WEIGHT, 1 << 30),))
    sets = pod_sets_of(replace(job, requirements=planned))
    assert requests_of(sets["weight"])["memory"] == "1536Mi"


def test_an_sdk_job_is_one_pod_with_all_its_systems(job):
    sets = pod_sets_of(replace(job, type=JobType.SDK_EXECUTE, num_systems=1))
    assert list(sets) == ["coordinator"]
    assert requests_of(sets["coordinator"])["wsc.open-appliance.org/systems"] == "1"


@pytest.mark.parametrize(
    ("found", "held_by", "phase", "order"),
    [
        (PENDING, HELD_BY, Phase.QUEUED, Order.NOTHING),
        (PENDING, "", Phase.QUEUED, Order.STOP),
        (PENDING, "", Phase.RUNNING, Order.STOP),
        (ADMITTED, HELD_BY, Phase.QUEUED, Order.START),
        (ADMITTED, "ada", Phase.QUEUED, Order.NOTHING),
        (ADMITTED, "", Phase.RUNNING, Order.NOTHING),
        (PREEMPTED, "", Phase.RUNNING, Order.STOP),
        (PREEMPTED, HELD_BY, Phase.RUNNING, Order.NOTHING),
        (PREEMPTED, HELD_BY, Phase.QUEUED, Order.CLEAR),
        (PREEMPTED, "spec.suspend of its wsjob", Phase.QUEUED, Order.CLEAR),
    ],
)
def test_what_is_to_be_done_follows_from_both(job, found, held_by, phase, order):
    assert workloads.order_for(replace(job, held_by=held_by, phase=phase), found) is order


def test_an_evicted_workload_gives_back_its_quota_and_asks_again_after_a_preemption():
    status = workloads.cleared_status(PREEMPTED, NOW)
    assert status["admission"] is None
    assert conditions_of(status) == {
        "QuotaReserved": ("False", "Pending"),
        "Admitted": ("False", "NoReservation"),
        "Evicted": ("True", "Preempted"),
        "Requeued": ("True", "Preempted"),
    }
    stopped = workload(QuotaReserved=(True, "Reserved"), Evicted=(True, "Deactivated"))
    again = conditions_of(workloads.cleared_status(stopped, NOW))
    assert again["Requeued"] == ("False", "Deactivated")


def test_a_workload_ends_once_with_its_job(job):
    ended = replace(job, phase=Phase.CANCELLED, message="cancelled by ada")
    status = workloads.finished_status(ended, ADMITTED, NOW)
    (finished,) = [each for each in status["conditions"] if each["type"] == "Finished"]
    assert (finished["status"], finished["reason"]) == ("True", "Failed")
    assert finished["message"] == "cancelled by ada"
    assert finished["lastTransitionTime"] == "2026-11-25T12:00:00Z"
    assert workloads.finished_status(ended, {**ADMITTED, "status": status}, NOW) is None


def test_kueue_sees_that_pods_of_an_admitted_job_run(job):
    assert workloads.ready_status(job, PENDING, NOW) is None
    waiting = workloads.ready_status(job, ADMITTED, NOW)
    assert conditions_of(waiting)["PodsReady"] == ("False", "WaitForStart")
    running = replace(job, phase=Phase.RUNNING)
    known = {**ADMITTED, "status": workloads.ready_status(running, ADMITTED, NOW)}
    assert conditions_of(known["status"])["PodsReady"] == ("True", "Started")
    assert workloads.ready_status(running, known, NOW) is None


def test_a_queue_is_the_wsjobs_own_or_the_default():
    labelled = {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "mine"}}}
    plain = {"metadata": {}}
    with_default = replace(OPTIONS, kueue_queue="all")
    assert workloads.queue_of(labelled, with_default) == "mine"
    assert workloads.queue_of(plain, with_default) == "all"
    assert workloads.queue_of(plain, OPTIONS) == ""
    assert workloads.queue_of(labelled, replace(OPTIONS, kueue=False)) == ""


class ServerWith:
    """An API server that knows an API group in some versions."""

    def __init__(self, *versions):
        self._versions = versions

    def versions_of(self, _):
        return self._versions


def test_a_server_without_workloads_is_named():
    with pytest.raises(ClusterError, match=r"no Workloads of Kueue in v1beta2 or v1beta1; it has"):
        Kueue(ServerWith("v1alpha1"), OPTIONS, SystemClock())
    Kueue(ServerWith(), replace(OPTIONS, kueue=False), SystemClock())
