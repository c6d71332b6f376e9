"""Conditions of a wsjob follow from its job's phase, and keep their times."""

import datetime as dt

import pytest

from appliance.core.cluster.jobs import Phase
from appliance.management.kubernetes.wsjob_conditions import conditions_of, event_of, news_of

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
LATER = NOW + dt.timedelta(minutes=5)
WSJOB = {
    "apiVersion": "wsc.open-appliance.org/v1",
    "kind": "WsJob",
    "metadata": {"name": "a", "namespace": "n", "uid": "u", "generation": 3},
}


def after(phase, before=(), message="", now=NOW, **more):
    resource = {**WSJOB, "status": {"conditions": before}}
    return conditions_of(phase, resource, message=message, now=now, **more)


def true_of(conditions):
    return {each["type"] for each in conditions if each["status"] == "True"}


@pytest.mark.parametrize(
    ("phase", "wanted"),
    [
        (Phase.CREATED, {"Queued"}),
        (Phase.QUEUED, {"Queued"}),
        (Phase.SCHEDULED, set()),
        (Phase.INITIALIZING, set()),
        (Phase.RUNNING, {"PodsPlaced", "Running"}),
        (Phase.SUCCEEDED, {"PodsPlaced", "Complete"}),
        (Phase.FAILED, {"Failed"}),
        (Phase.CANCELLED, {"Failed"}),
    ],
)
def test_every_phase_has_its_conditions(phase, wanted):
    conditions = after(phase)
    assert true_of(conditions) == wanted
    assert {each["observedGeneration"] for each in conditions} == {3}


def test_a_cancelled_job_says_so_and_a_waiting_one_why():
    (failed,) = [each for each in after(Phase.CANCELLED) if each["type"] == "Failed"]
    assert failed["reason"] == "Cancelled"
    waiting = after(Phase.INITIALIZING, pods_wait="0/3 nodes are available")
    (placed,) = [each for each in waiting if each["type"] == "PodsPlaced"]
    assert (placed["reason"], placed["message"]) == ("PodsWait", "0/3 nodes are available")


@pytest.mark.parametrize(
    ("phase", "held", "waits", "wanted", "told"),
    [
        (Phase.RUNNING, False, "exceeded quota", set(), {"PodsPlaced", "Running"}),
        (Phase.INITIALIZING, False, "exceeded quota", set(), {"PodsPlaced", "Running"}),
        (Phase.RUNNING, True, "", {"PodsPlaced", "Running"}, set()),  # it is yet to be stopped
        (Phase.QUEUED, True, "", {"Queued", "Suspended"}, {"Queued", "Suspended"}),
        (Phase.QUEUED, False, "behind others", {"Queued"}, {"Queued"}),
        (Phase.FAILED, True, "exceeded quota", {"Failed"}, {"Failed"}),
        (Phase.SUCCEEDED, False, "", {"PodsPlaced", "Complete"}, {"Complete"}),
    ],
)
def test_conditions_say_what_is_and_each_what_is_its_own(phase, held, waits, wanted, told):
    conditions = after(phase, message="of the job", is_suspended=held, pods_wait=waits)
    assert true_of(conditions) == wanted
    assert {each["type"] for each in conditions if each.get("message")} == told


def test_a_condition_keeps_its_time_until_it_changes():
    running = after(Phase.RUNNING)
    ended = {each["type"]: each for each in after(Phase.SUCCEEDED, running, now=LATER)}
    times = {kind: each["lastTransitionTime"] for kind, each in ended.items()}
    assert times["Queued"] == times["PodsPlaced"] == "2026-01-01T00:00:00Z"
    assert times["Running"] == times["Complete"] == "2026-01-01T00:05:00Z"
    assert ended["PodsPlaced"]["status"] == "True"


@pytest.mark.parametrize(
    ("before", "wanted", "event"),
    [
        ("", ("QUEUED", ""), None),
        ("QUEUED", ("QUEUED", "behind others"), None),
        ("QUEUED", ("RUNNING", ""), None),
        ("QUEUED", ("INITIALIZING", "no node"), ("Waiting", "no node", True)),
        ("RUNNING", ("RUNNING", "no image"), ("Waiting", "no image", True)),
        ("RUNNING", ("SUCCEEDED", "done"), None),
        ("RUNNING", ("FAILED", "x"), ("Failed", "x", True)),
        ("RUNNING", ("CANCELLED", ""), ("Cancelled", "The job is CANCELLED", True)),
        ("FAILED", ("FAILED", "y"), None),
    ],
)
def test_an_event_is_for_a_failure_or_for_pods_that_wait(before, wanted, event):
    resource = {**WSJOB, "status": {"phase": before}}
    assert news_of(resource, {"phase": wanted[0], "message": wanted[1]}) == event


def test_an_event_is_of_its_wsjob_and_as_long_as_the_server_takes():
    event = event_of(WSJOB, reason="Failed", message="x" * 2000, is_warning=True, now=NOW)
    assert len(event["message"]) == 1024
    assert event["involvedObject"]["uid"] == "u"
