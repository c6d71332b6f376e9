"""What ended a pod, as a value and in words, from its status alone."""

import pytest

from appliance.cluster.kubernetes.pod_words import DELETED, End, end_of, why_not_started
from appliance.core.pods.end_cause import EndCause


def pod(*, deleting=False, limit="", **status):
    metadata = {"name": "p", **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleting else {})}
    container = {"resources": {"limits": {"memory": limit}}} if limit else {}
    return {"metadata": metadata, "spec": {"containers": [container]}, "status": status}


def terminated(code, reason="Error", message=""):
    ended = {"exitCode": code, "reason": reason, "message": message}
    return [{"state": {"terminated": ended}}]


def disruption(reason, status="True"):
    return [{"type": "DisruptionTarget", "status": status, "reason": reason, "message": "why"}]


@pytest.mark.parametrize(
    ("reason", "cause", "words"),
    [
        ("EvictionByEvictionAPI", EndCause.DRAINED, "it was evicted, as by a drain of its node"),
        ("PreemptionByScheduler", EndCause.PREEMPTED, "preempted it for a more urgent pod"),
        ("PreemptionByKubeScheduler", EndCause.PREEMPTED, "preempted it for a more urgent pod"),
        ("DeletionByTaintManager", EndCause.TAINTED, "has a taint that it does not bear"),
        ("DeletionByPodGC", EndCause.NODE_LOST, "its node is gone"),
        ("TerminationByKubelet", EndCause.ENDED_BY_NODE, "its node has ended it"),
        ("SomethingNew", EndCause.DISRUPTED, "SomethingNew: why"),
    ],
)
def test_a_disruption_says_who_whether_the_pod_has_ended_or_not(reason, cause, words):
    conditions = disruption(reason)
    for end in (
        end_of(pod(phase="Running", conditions=conditions, deleting=True)),
        end_of(pod(phase="Failed", conditions=conditions, containerStatuses=terminated(137))),
        end_of(pod(phase="Failed", conditions=conditions)),
    ):
        assert end.cause is cause
        assert cause.is_disruption
        assert words in end.words
        assert end.exit_code in (137, 143)


def test_a_disruption_that_did_not_come_to_it_is_none():
    running = pod(phase="Running", conditions=disruption("EvictionByEvictionAPI", "False"))
    assert end_of(running) is None


def test_a_server_that_knows_no_disruptions_tells_that_others_delete_a_pod():
    end = end_of(pod(phase="Running", deleting=True))
    assert end == End(exit_code=143, cause=EndCause.DELETED, words=DELETED)
    assert end.cause.is_disruption


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("Evicted", EndCause.OVER_LIMIT),
        ("NodeShutdown", EndCause.ENDED_BY_NODE),
        ("NodeLost", EndCause.NODE_LOST),
        ("UnexpectedAdmissionError", EndCause.UNKNOWN),
        ("", EndCause.UNKNOWN),
    ],
)
def test_a_pod_without_a_container_ended_for_the_reason_of_its_status(reason, cause):
    end = end_of(pod(phase="Failed", reason=reason))
    assert (end.exit_code, end.cause, end.words) == (137, cause, reason)


def test_a_pod_that_takes_too_much_memory_says_how_much_it_had():
    statuses = terminated(137, "OOMKilled")
    end = end_of(pod(phase="Failed", containerStatuses=statuses, limit="8Gi"))
    assert end.words == "OOMKilled: it took more than its limit of 8Gi of memory"
    assert end.cause is EndCause.OUT_OF_MEMORY
    assert not end.cause.is_disruption
    assert end_of(pod(phase="Failed", containerStatuses=statuses)).words == "OOMKilled"


def test_a_program_that_ends_by_itself_tells_its_last_line():
    failed = pod(phase="Failed", containerStatuses=terminated(1, message="one\ntwo\n"))
    assert end_of(failed) == End(exit_code=1, cause=EndCause.PROCESS, words="two")
    done = pod(phase="Succeeded", containerStatuses=terminated(0, "Completed"))
    assert end_of(done) == End(exit_code=0, cause=EndCause.PROCESS)


REGISTRATION = "j-chief-1 could not register with j-coordinator-0 within 60 s: nobody answers."


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("out of luck", "out of luck"),
        ('{"message": "Pod ends", "level": "INFO"}', "Pod ends"),
        (
            '{"message": "Pod could not start", "traceback": "Traceback:\\n  File x\\n'
            f'appliance.core.errors.PodFailedError: {REGISTRATION}"}}',
            REGISTRATION,
        ),
        ('{"message": "Cut", "traceback": "no error"}', "Cut"),
        ('{"loss": 3}', '{"loss": 3}'),
        ("[1, 2]", "[1, 2]"),
        ('{"message": "cut of', '{"message": "cut of'),
    ],
)
def test_of_a_line_of_our_log_the_sentence_is_told_and_no_json(line, words):
    ended = pod(phase="Failed", containerStatuses=terminated(1, message=f"before\n{line}\n"))
    assert end_of(ended).words == words


@pytest.mark.parametrize(
    "line",
    [
        "[" * 4000,
        '{"a":' * 4000,
        '{"message": ' + "[" * 4000 + "]" * 4000 + "}",
        '{"message": [["not a text"]]}',
        '{"message": 9' + "9" * 5000 + "}",
        '{"message": null, "traceback": 3}',
    ],
)
def test_a_line_that_cannot_be_read_is_told_as_it_is(line):
    ended = pod(phase="Failed", containerStatuses=terminated(1, message=f"before\n{line}\n"))
    assert end_of(ended).words[:20] == line[:20]


MESH = {"name": "istio-proxy", "state": {"running": {}}}


def own(**state):
    return {"name": "pod", "state": state}


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("phase", ["Running", "Succeeded", "Failed"])
@pytest.mark.parametrize("code", [0, 1])
def test_a_pod_ends_with_its_own_container_whatever_one_beside_it_does(order, phase, code):
    """A service mesh puts one there, before or behind it, which goes on, or fails at its end."""
    beside = MESH if phase == "Running" else {**MESH, "state": {"terminated": {"exitCode": 137}}}
    ended = own(terminated={"exitCode": code, "reason": "Error", "message": "so it is"})
    end = end_of(pod(phase=phase, containerStatuses=[ended, beside][::order]))
    assert end.exit_code == code
    assert end.cause is EndCause.PROCESS
    assert end.words == ("so it is" if code else "")


def test_a_pod_goes_on_while_its_own_container_does():
    failed = {**MESH, "state": {"terminated": {"exitCode": 1}}}
    assert end_of(pod(phase="Running", containerStatuses=[failed, own(running={})])) is None


def test_a_pod_that_waits_for_a_container_beside_its_own_says_what_that_waits_for():
    waiting = {"reason": "ImagePullBackOff", "message": "no such image"}
    initializing = own(waiting={"reason": "PodInitializing"})
    for field in ("initContainerStatuses", "containerStatuses"):
        statuses = {"containerStatuses": [initializing]}
        statuses[field] = [{**MESH, "state": {"waiting": waiting}}, *statuses.get(field, ())]
        assert (
            why_not_started(pod(phase="Pending", **statuses)) == "ImagePullBackOff: no such image"
        )


def test_the_limit_that_was_exceeded_is_that_of_its_own_container():
    found = pod(phase="Failed", containerStatuses=[own(terminated=KILLED)], limit="8Gi")
    first = {"name": "istio-proxy", "resources": {"limits": {"memory": "1Gi"}}}
    found["spec"]["containers"].insert(0, first)
    assert "limit of 8Gi" in end_of(found).words


KILLED = {"exitCode": 137, "reason": "OOMKilled"}
