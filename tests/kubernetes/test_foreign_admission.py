"""What other people's admission does to pods of jobs: it changes them, refuses, or is away.

The API server and its admission are real, and so is the webhook; nodes are played.
"""

from dataclasses import replace
from functools import partial

import pytest

from appliance.cluster.kubernetes.manifests import GATES_SINCE, LAUNCH_ANNOTATION
from appliance.cluster.kubernetes.object_kinds import JOB_LABEL, POD, Kind, name_of
from appliance.cluster.launcher import PodsWait
from tests.support.admission_webhook import patched, webhook_of_pods
from tests.support.fake_nodes import FakeNodes
from tests.support.kube_jobs import (
    make_gang,
    make_options,
    next_exit,
    running_launcher,
    wait_stopped,
)
from tests.support.waiting import wait_until

PRIORITY_CLASS = Kind(
    group="scheduling.k8s.io",
    version="v1",
    plural="priorityclasses",
    name="PriorityClass",
    is_namespaced=False,
)


@pytest.fixture
def admin(kube, account):
    """The cluster as its administrator has it, whose namespace's pods may be reviewed."""
    path = f"/api/v1/namespaces/{account.namespace}"
    labels = {"metadata": {"labels": {"reviewed": account.namespace}}}
    content_type = "application/merge-patch+json"
    kube.admin()._call("PATCH", path, body=labels, content_type=content_type)
    return account.admin


@pytest.fixture
def reviewed(admin, tmp_path):
    """Return what has the namespace's pods reviewed by a webhook."""
    return partial(webhook_of_pods, admin, tmp_path)


@pytest.fixture
def options(tmp_path):
    return make_options(tmp_path)


@pytest.fixture
def gang(tmp_path):
    return make_gang(tmp_path)


def told_why(launcher, words):
    """Wait until a job's message has some words, and return it."""
    while True:
        told = launcher.exits.get(timeout=120)
        assert isinstance(told, PodsWait), told
        if words in told.reason:
            return told.reason


def runs(admin, gang):
    items, _ = admin.list(POD, f"{JOB_LABEL}={gang[0].job}")
    return [each["status"]["phase"] for each in items] == ["Running"] * len(gang)


def path_of(key):
    return key.replace("~", "~0").replace("/", "~1")


def added(where, value):
    return {"op": "add", "path": where, "value": value}


def test_pods_with_a_sidecar_and_further_labels_run_and_end(api, admin, options, gang, reviewed):
    """As a service mesh, a secrets agent and an autoscaler change them."""
    sidecar = {"name": "proxy", "image": "mesh", "env": [{"name": "A", "value": "1"}]}
    changes = (
        added("/spec/containers/-", sidecar),
        added("/spec/containers/0/env/-", {"name": "INJECTED", "value": "1"}),
        added("/metadata/labels/mesh", "on"),
        added("/metadata/annotations/mesh.example~1status", "injected"),
        added("/spec/tolerations/-", {"key": "mesh", "operator": "Exists"}),
    )
    with (
        reviewed(lambda _: patched(*changes)),
        running_launcher(api, options) as launcher,
        FakeNodes(admin) as nodes,
    ):
        launcher.launch(gang)
        wait_until(lambda: runs(admin, gang), seconds=120, what="a running gang")
        (first, *_), _ = admin.list(POD)
        assert [each["name"] for each in first["spec"]["containers"]] == ["pod", "proxy"]
        nodes.end(gang[3].name, 0)
        assert next_exit(launcher).exit_code == 0
        launcher.stop(gang[0].job)
        assert wait_stopped(launcher, gang[0].job) == []


LOST = {
    "the job's label": f"/metadata/labels/{path_of(JOB_LABEL)}",
    "the launch": f"/metadata/annotations/{path_of(LAUNCH_ANNOTATION)}",
    "every label": "/metadata/labels",
    "every annotation": "/metadata/annotations",
}


def test_a_webhook_that_takes_our_labels_away_is_told_and_leaves_no_pod(
    api, admin, options, reviewed, tmp_path
):
    taken, gang = {}, make_gang(tmp_path)
    with running_launcher(api, options) as launcher, FakeNodes(admin):
        with reviewed(lambda _: patched(taken)) as end:
            for name, path in LOST.items():
                taken |= {"op": "remove", "path": path}
                lost = make_gang(tmp_path)
                launcher.launch(lost)
                why = told_why(launcher, "a webhook of the cluster takes labels or annotations")
                assert f"4 of 4 pods wait; {lost[0].job}-" in why, name
                launcher.stop(lost[0].job)
                assert wait_stopped(launcher, lost[0].job) == []
                assert not admin.list(POD)[0], name
            launcher.launch(gang)
            told_why(launcher, f"4 of 4 pods wait; {gang[0].job}-")
            end()
        wait_until(lambda: runs(admin, gang), seconds=120, what="a running gang")


def test_a_webhook_that_does_not_answer_is_named_while_pods_wait_for_it(
    api, admin, options, gang, reviewed
):
    with running_launcher(api, options) as launcher, FakeNodes(admin):
        with reviewed(None) as end:
            launcher.launch(gang)
            why = told_why(launcher, "failed calling webhook")
            assert f"test-{admin.namespace}.site.example" in why
            end()
        wait_until(lambda: runs(admin, gang), seconds=120, what="a running gang")


def test_a_webhook_that_never_answers_fails_the_job_in_its_words(
    api, admin, options, gang, reviewed
):
    options = replace(options, placement_seconds=3.0)
    with running_launcher(api, options) as launcher, reviewed(None):
        launcher.launch(gang)
        end = next_exit(launcher)
        assert "no node has taken it within 3 seconds" in end.reason
        assert "failed calling webhook" in end.reason
        launcher.stop(gang[0].job)
        assert wait_stopped(launcher, gang[0].job) == []


def test_a_webhook_that_refuses_is_quoted(api, admin, options, gang, reviewed):
    refused = {"allowed": False, "status": {"message": "images are from registry.site alone"}}
    with running_launcher(api, options) as launcher, FakeNodes(admin):
        with reviewed(lambda _: refused) as end:
            launcher.launch(gang)
            why = told_why(launcher, "denied the request: images are from registry.site alone")
            assert "4 of 4 pods wait" in why
            end()
        wait_until(lambda: runs(admin, gang), seconds=120, what="a running gang")


def test_gates_of_others_stay_until_these_take_them_away(api, admin, options, gang, reviewed):
    if api.version() < GATES_SINCE:
        pytest.skip("this API server knows no scheduling gates")
    theirs = {"name": "site.example/approval"}

    def review(pod):
        gates = pod["spec"].get("schedulingGates", [])
        return patched(added("/spec/schedulingGates", [*gates, theirs]))

    with running_launcher(api, options) as launcher, FakeNodes(admin) as nodes:
        with reviewed(review):
            launcher.launch(gang)
            told_why(launcher, "it waits for site.example/approval to take its scheduling gate")
            wait_until(lambda: len(admin.list(POD)[0]) == len(gang), seconds=60, what="all pods")
        for spec in gang[:3]:
            admin.patch(POD, spec.name, {"spec": {"schedulingGates": None}})
        told_why(launcher, f"1 of 4 pods wait; {gang[3].name}: it waits for site.example/approval")
        assert len(nodes.bound) == 3
        admin.patch(POD, gang[3].name, {"spec": {"schedulingGates": None}})
        wait_until(lambda: runs(admin, gang), seconds=120, what="a running gang")


def test_a_priority_class_that_is_not_there_is_told_and_may_be_made(api, admin, options, gang):
    options = replace(options, priority_class=f"urgent-{admin.namespace}")
    with running_launcher(api, options) as launcher, FakeNodes(admin):
        launcher.launch(gang)
        why = told_why(launcher, f"no PriorityClass with name {options.priority_class} was found")
        assert "4 of 4 pods wait" in why
        made = {"metadata": {"name": options.priority_class}, "value": 7}
        admin.create(PRIORITY_CLASS, made)
        try:
            wait_until(lambda: runs(admin, gang), seconds=120, what="a running gang")
            assert {each["spec"]["priority"] for each in admin.list(POD)[0]} == {7}
        finally:
            admin.delete(PRIORITY_CLASS, name_of(made))


def test_a_runtime_class_that_is_not_there_is_told(api, admin, options, gang):
    options = replace(options, runtime_class="gvisor")
    with running_launcher(api, options) as launcher, FakeNodes(admin):
        launcher.launch(gang)
        assert 'RuntimeClass "gvisor" not found' in told_why(launcher, "RuntimeClass")
