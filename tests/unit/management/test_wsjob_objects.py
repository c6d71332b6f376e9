"""How jobs show as wsjobs, and what is read from them."""

import datetime as dt
import re
from dataclasses import replace

import pytest

from appliance.cluster.kubernetes.object_kinds import FINALIZER
from appliance.core.cluster.drivers import DriverSpec
from appliance.core.cluster.jobs import Phase
from appliance.core.errors import UserError
from appliance.management.kubernetes import wsjob_objects as objects
from tests.support.clock import FakeClock
from tests.support.management import new_job, opened_state

NOW = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


@pytest.fixture
def record(tmp_path):
    with opened_state(tmp_path, FakeClock()) as state:
        state.sessions.ensure()
        state.workflows.ensure("wflow-1", session="job-operator", user=new_job().user)
        return state.jobs.create(new_job("wsjob-a", labels={"k": "v"}))


def wsjob(name="run", *, uid="u-1", generation=1, labels=None, status=None, **spec):
    metadata = {"name": name, "uid": uid, "generation": generation, "labels": labels or {}}
    return {
        "apiVersion": "v1",
        "kind": "WsJob",
        "metadata": {**metadata, "resourceVersion": "7"},
        "spec": {
            "driver": {"command": ["x"], "workingDir": "/"},
            "user": {"uid": 7, "name": "ada"},
            **spec,
        },
        "status": status or {},
    }


def show(record, resource):
    return objects.status_of(record, resource, now=NOW, dashboard="d", why_waits="")


def test_the_job_of_a_wsjob_follows_from_its_uid_alone():
    first = objects.job_of(wsjob(uid="u-1"))
    assert first == objects.job_of(wsjob(name="other", uid="u-1", priority="P0"))
    assert first != objects.job_of(wsjob(uid="u-2"))
    assert re.fullmatch(r"wsjob-[a-z0-9]{22}", first)


def test_nobody_can_pass_their_wsjob_off_as_another_job_s():
    labels = {"wsc.open-appliance.org/job": "wsjob-a"}
    assert objects.job_of(wsjob(name="mine", labels=labels)) != "wsjob-a"


def test_a_new_object_shows_no_environment(record):
    driver = DriverSpec(argv=("a", "b"), work_dir="/w", environment={"TOKEN": "secret"})
    made = objects.new_object(record, driver)
    assert made["spec"]["driver"] == {"command": ["a", "b"], "workingDir": "/w"}
    assert made["metadata"]["finalizers"] == [FINALIZER]
    assert "secret" not in str(made)


def test_a_status_that_is_as_wanted_is_not_written(record):
    resource = wsjob()
    wanted = show(record, resource)
    assert objects.status_changes(resource, wanted) != {}
    merged = {**resource, "status": {k: v for k, v in wanted.items() if v not in (None, "")}}
    assert objects.status_changes(merged, show(record, merged)) == {}


def test_time_that_goes_by_is_not_written_until_the_end(record):
    record = replace(record, started_at=NOW, phase=Phase.RUNNING)
    resource = wsjob()
    shown = show(record, resource)
    resource["status"] = {k: v for k, v in shown.items() if v not in (None, "")}
    later = objects.status_of(
        record, resource, now=NOW + dt.timedelta(minutes=5), dashboard="d", why_waits=""
    )
    assert objects.status_changes(resource, later) == {}
    over = replace(record, ended_at=NOW + dt.timedelta(minutes=6))
    assert objects.status_changes(resource, show(over, resource))["duration"] == "6m0s"


def test_a_removed_label_is_removed_from_the_status(record):
    resource = wsjob(status={"labels": {"old": "1", "k": "v"}})
    assert objects.status_changes(resource, show(record, resource))["labels"] == {"old": None}


def test_an_edit_asks_for_what_has_changed_since_it_was_taken_over():
    taken = {"priority": "P1", "labels": {"a": "1", "b": "2"}}
    status = {"observedGeneration": 1, "taken": taken}
    edited = wsjob(generation=2, status=status, priority="P1", labels={"b": "3", "c": "4"})
    edited["spec"]["labels"] = {"b": "3", "c": "4"}
    requested = objects.read_requested_edit(edited)
    assert requested == objects.RequestedEdit(priority=None, labels={"a": None, "b": "3", "c": "4"})
    assert (
        objects.read_requested_edit({**edited, "metadata": {**edited["metadata"], "generation": 1}})
        is None
    )


@pytest.mark.parametrize("name", objects.FIXED_FIELDS)
def test_an_edit_of_what_was_submitted_is_seen_once(record, name):
    resource = wsjob(session="s", numSystems=1, workersPerSystem=1)
    shown = show(record, resource)
    assert objects.read_requested_edit({**resource, "status": shown}) is None
    edited = wsjob(generation=2, status=shown, session="s", numSystems=1, workersPerSystem=1)
    edited["spec"][name] = {"command": ["y"]} if name == "driver" else "other"
    requested = objects.read_requested_edit(edited)
    assert requested == objects.RequestedEdit(priority=None, labels={}, has_fixed_changes=True)
    assert objects.read_requested_edit({**edited, "status": show(record, edited)}) is None


def test_an_object_from_before_the_digest_is_not_taken_for_a_changed_one():
    taken = {"labels": {}}
    resource = wsjob(generation=2, status={"observedGeneration": 1, "taken": taken}, labels={})
    assert objects.read_requested_edit(resource) is None


def test_a_wsjob_is_submitted_once_and_again_after_an_edit_of_a_refused_one():
    fresh = wsjob()
    assert objects.is_submittable(fresh)
    refused = wsjob(status=objects.refused_status(fresh, "no", now=NOW))
    assert not objects.is_submittable(refused)
    assert objects.is_submittable(wsjob(generation=2, status=refused["status"]))
    assert not objects.is_submittable(wsjob(generation=2, status={"job": "wsjob-x"}))


def test_a_request_is_read():
    request = objects.read_request(wsjob(priority="P0", numSystems=2))
    assert (request.user.uid, request.user.gid, request.priority) == (7, 7, 99)
    assert (request.spec.argv, request.spec.num_systems) == (("x",), 2)


def test_a_request_without_a_user_is_refused():
    with pytest.raises(UserError, match="does not say whom it runs as"):
        objects.read_request(wsjob(user=None))


def test_tags_that_kubernetes_cannot_hold_are_left_out():
    tags = objects.tags_of({"good": "1", "-bad": "2", "worse": "a b", "empty": ""})
    assert tags == {f"{objects.TAG_PREFIX}good": "1", f"{objects.TAG_PREFIX}empty": ""}


def test_a_finalizer_is_changed_for_the_version_that_was_seen():
    held = wsjob()
    held["metadata"]["finalizers"] = ["other", FINALIZER]
    change = objects.finalizers(held, wanted=False)
    assert change == {"finalizers": ["other"], "resourceVersion": "7"}
