"""A gang of one pod starts as any other, and pods that have ended stay."""

from dataclasses import replace

import pytest

from appliance.cluster.kubernetes import gangs, manifests
from appliance.cluster.kubernetes.gangs import Progress
from appliance.core.ids import Role
from tests.support.kube_gangs import NOW, gang_of, record_of, seen
from tests.support.kube_jobs import make_gang, make_options


@pytest.fixture
def options(tmp_path):
    return make_options(tmp_path)


def one_pod(tmp_path, options, **changes):
    """A gang of one pod, and what there is of it."""
    gang = gang_of(record_of(tmp_path, make_gang(tmp_path, members=((Role.DRIVER, 0),)), options))
    return gang, seen(gang, driver_0=changes)


@pytest.mark.parametrize(
    ("changes", "starts", "ends"),
    [
        ({"node": ""}, False, False),
        ({}, True, False),
        ({"phase": "Running"}, True, False),
        ({"phase": "Succeeded", "code": 0}, False, True),
        ({"phase": "Failed", "code": 1}, False, True),
        ({"phase": "Running", "deleting": NOW}, False, False),
    ],
)
def test_a_pod_that_is_alone_starts_with_its_node_and_has_not_run_before(
    tmp_path, options, changes, starts, ends
):
    gang, there = one_pod(tmp_path, options, **changes)
    decision = gangs.decide(gang, there, options)
    assert (decision.starts, bool(decision.exits)) == (starts, ends)


def test_a_pod_that_was_let_start_and_is_gone_is_not_made_again(tmp_path, options):
    gang, there = one_pod(tmp_path, options)
    started = replace(gang, progress=Progress.STARTED, started_at=NOW)
    decision = gangs.decide(started, replace(there, pods={}), options)
    assert (decision.creates, len(decision.exits)) == ((), 1)


@pytest.mark.parametrize(
    ("changes", "stopped", "deleted"),
    [
        ({"phase": "Running"}, False, True),
        ({"phase": "Pending", "node": ""}, False, True),
        ({"phase": "Unknown"}, False, True),
        ({"phase": "Succeeded", "code": 0}, True, False),
        ({"phase": "Failed", "code": 1}, True, False),
        ({"phase": "Failed", "code": 1, "deleting": NOW}, False, False),
    ],
)
def test_a_pod_that_has_ended_stays_for_its_log(tmp_path, options, changes, stopped, deleted):
    gang, there = one_pod(tmp_path, options, **changes)
    decision = gangs.decide(replace(gang, progress=Progress.STOPPING), there, options)
    assert (decision.is_stopped, bool(decision.deletes)) == (stopped, deleted)


@pytest.mark.parametrize("deleting", [None, NOW])
def test_a_pod_of_an_earlier_launch_makes_room(tmp_path, options, deleting):
    gang, there = one_pod(tmp_path, options, phase="Failed", code=1, deleting=deleting)
    (old,) = there.pods.values()
    old["metadata"]["annotations"][manifests.LAUNCH_ANNOTATION] = "earlier"
    decision = gangs.decide(gang, there, options)
    assert (decision.starts, decision.exits, decision.creates) == (False, (), [])
    assert [uid for _, uid, _ in decision.deletes] == ([] if deleting else [old["metadata"]["uid"]])
    assert gangs.decide(gang, replace(there, pods={}), options).creates
