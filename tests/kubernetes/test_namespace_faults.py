"""A session's namespace that somebody deletes, or in which management loses its rights.

All other sessions go on, whether management runs meanwhile or starts. The namespaces, the roles and
what gives them back are the chart's, installed by a real helm.
"""

import contextlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from appliance.cluster.kubernetes.api import ApiServer
from appliance.cluster.kubernetes.object_kinds import EVENT, POD, WSJOB, Kind, name_of
from appliance.cluster.kubernetes.options import KubernetesOptions, SessionNamespace
from appliance.core.cluster.jobs import Phase
from appliance.core.errors import ConflictError
from appliance.management.kubernetes import namespaced_jobs
from appliance.management.kubernetes.namespace_state import find_fault
from tests.kubernetes.test_helm import NAME, RELEASE
from tests.kubernetes.test_session_namespaces import (  # noqa: F401 - fixtures
    RBAC,
    ROLE,
    api,
    helm,
    namespaces,
    of_jobs,
    own,
    team,
)
from tests.kubernetes.test_wsjobs import wait_for_status
from tests.support.fake_nodes import FakeNodes
from tests.support.kube_harness import running_kube_harness
from tests.support.kube_jobs import make_options
from tests.support.kube_server import CHART
from tests.support.management import new_job
from tests.support.waiting import wait_until

ROLE_BINDING = Kind(group=RBAC, version="v1", plural="rolebindings", name="RoleBinding")
AT_START = pytest.mark.parametrize("at_start", [True, False], ids=["start", "running"])


@dataclass(frozen=True, kw_only=True)
class Site:
    """A release whose session research has a namespace of its own.

    `api` is the release's namespace as management may see it, `own` and `team` are that namespace
    and the session's as the administrator sees them.
    """

    api: ApiServer
    own: ApiServer
    team: ApiServer
    options: KubernetesOptions
    helm: Callable[..., Any]
    directory: Path


@pytest.fixture
def site(own, team, api, helm, tmp_path):  # noqa: F811
    research = SessionNamespace(namespace=team.namespace)
    options = make_options(tmp_path, sessions={"research": research})
    return Site(api=api, own=own, team=team, options=options, helm=helm, directory=tmp_path)


@pytest.fixture
def quick(monkeypatch):
    """Let management look at namespaces often."""
    monkeypatch.setattr(namespaced_jobs, "_LOOK_SECONDS", 0.2)


def remove(there):
    """Do what an administrator and the controller of namespaces do, with all that is there."""
    path = f"/api/v1/namespaces/{there.namespace}"
    there._call("DELETE", path)
    take_rights(there)
    for pod in there.list(POD)[0]:
        there.delete(POD, name_of(pod), grace_seconds=0)
    for wsjob in there.list(WSJOB)[0]:
        there.patch(WSJOB, name_of(wsjob), {"metadata": {"finalizers": None}})
        there.delete(WSJOB, name_of(wsjob))
    namespace = there._call("GET", path)
    there._call("PUT", f"{path}/finalize", body={**namespace, "spec": {"finalizers": []}})


def take_rights(there):
    for kind in (ROLE_BINDING, ROLE):
        there.delete(kind, "wsc-appliance-session")


def give_back(site):
    """Do what the refusal says."""
    name = site.team.namespace
    if site.team._call("GET", f"/api/v1/namespaces/{name}", missing=True) is None:
        body = {"metadata": {"name": name}}
        site.team._call("POST", "/api/v1/namespaces", body=body)
    value = f"sessions.research.namespace={name}"
    done = site.helm("upgrade", RELEASE, str(CHART), given=(value,))
    assert done.returncode == 0, done.stderr


def refusal(harness):
    """Return why session research takes no jobs; empty if it does."""
    try:
        harness.sessions.session_for("research", "")
    except ConflictError as error:
        return str(error)
    return ""


def wait_for_refusal(harness, words):
    wait_until(
        lambda: words in refusal(harness),
        seconds=120,
        what=words,
        seen=lambda: refusal(harness),
    )


def wait_for_phase(harness, job, phase):
    wait_until(
        lambda: harness.jobs.load(job).phase is phase,
        seconds=120,
        what=phase.value,
        seen=lambda: str(harness.jobs.load(job)),
    )


@contextlib.contextmanager
def harmed(site, harm, *, at_start):
    """Yield management after some harm, while jobs of two sessions run, and these jobs."""
    with contextlib.ExitStack() as stack:
        nodes = [stack.enter_context(FakeNodes(each)) for each in (site.team, site.own)]

        def begin(closer):
            running = running_kube_harness(site.directory, site.api, site.options, num_systems=8)
            return closer.enter_context(running)

        closer = stack.enter_context(contextlib.ExitStack())
        harness = begin(closer)
        theirs = harness.submit(new_job("wsjob-a", session="research"))
        ours = harness.submit(new_job("wsjob-b", session="job-operator"))
        wait_until(lambda: all(len(each.started) == 2 for each in nodes), seconds=120, what="pods")
        for job in (theirs, ours):
            wait_for_phase(harness, job, Phase.INITIALIZING)
        if at_start:
            closer.close()
        harm(site.team)
        if at_start:
            harness = begin(closer)
        yield harness, theirs, ours


def take_in(site, harness, name):
    """Submit a job to the session and wait until its pods run."""
    wait_until(lambda: not refusal(harness), seconds=120, what="a session that takes jobs")
    job = harness.submit(new_job(name, session="research"))
    wait_until(
        lambda: sum(name_of(pod).startswith(name) for pod in site.team.list(POD)[0]) == 2,
        seconds=120,
        what="its pods",
        seen=lambda: f"{harness.jobs.load(job)} {harness.jobs.pod_waits}",
    )
    return job


@AT_START
def test_a_namespace_that_is_deleted_ends_its_own_jobs_alone(site, quick, at_start):
    gone = f"Namespace {site.team.namespace} of session 'research' is gone. Create the namespace"
    with harmed(site, remove, at_start=at_start) as (harness, lost, kept):
        wait_for_refusal(harness, gone)
        wait_until(lambda: harness.jobs.load(lost).phase.is_terminal, seconds=120, what="its end")
        if at_start:
            assert gone in harness.jobs.load(lost).message
        late = harness.submit(new_job("wsjob-c", session="research"))  # it has waited till now
        wait_for_phase(harness, late, Phase.FAILED)
        assert f"job could not be launched: {gone}" in harness.jobs.load(late).message
        other = harness.submit(new_job("wsjob-d", session="job-operator"))
        wait_for_phase(harness, other, Phase.INITIALIZING)
        assert harness.jobs.load(kept).phase is Phase.INITIALIZING
        give_back(site)
        new = take_in(site, harness, "wsjob-e")
        harness.jobs.end(new, Phase.SUCCEEDED, "done")
        wait_for_status(site.team, new, phase="SUCCEEDED", session="research")


@AT_START
def test_jobs_go_on_when_the_rights_in_their_namespace_come_back(site, quick, at_start):
    words = f"Management has no rights in namespace {site.team.namespace} of session 'research': "
    with harmed(site, take_rights, at_start=at_start) as (harness, job, kept):
        wait_for_refusal(harness, words)
        assert re.search(r"is forbidden: User \".*\" cannot (get|list) resource", refusal(harness))
        assert "Run helm upgrade" in refusal(harness)
        wait_until(lambda: words in harness.jobs.pod_waits.get(job, ""), seconds=60, what="a word")
        late = harness.submit(new_job("wsjob-c", session="research"))
        wait_for_phase(harness, late, Phase.FAILED)
        assert words in harness.jobs.load(late).message
        give_back(site)
        take_in(site, harness, "wsjob-e")
        wait_until(lambda: job not in harness.jobs.pod_waits, seconds=60, what="no word")
        for each in (job, kept):
            assert harness.jobs.load(each).phase is Phase.INITIALIZING
        harness.jobs.end(job, Phase.SUCCEEDED, "done")
        wait_for_status(site.team, job, phase="SUCCEEDED")
        assert_pods_end(site, job)


@AT_START
def test_jobs_whose_rights_stay_away_end_with_that_and_their_pods_end_later(
    site, quick, monkeypatch, at_start
):
    monkeypatch.setattr(namespaced_jobs, "_GRACE_SECONDS", 0.5)
    with harmed(site, take_rights, at_start=at_start) as (harness, job, kept):
        wait_for_phase(harness, job, Phase.FAILED)
        words = f"was lost: Management has no rights in namespace {site.team.namespace}"
        assert words in harness.jobs.load(job).message
        assert of_jobs(site.team) == {"wsjobs", "pods"}
        give_back(site)
        wait_for_status(site.team, job, phase="FAILED")
        assert_pods_end(site, job)
        assert harness.jobs.load(kept).phase is Phase.INITIALIZING
        take_in(site, harness, "wsjob-e")


def test_one_right_that_is_missing_is_told_until_it_is_there(site, quick):
    with harmed(site, take_creation, at_start=False) as (harness, *_):
        job = harness.submit(new_job("wsjob-c", session="research"))
        said = 'cannot create resource "pods" in API group "" in the namespace'
        wait_until(lambda: said in harness.jobs.pod_waits.get(job, ""), seconds=120, what=said)
        assert "The chart's role has every right" in harness.jobs.pod_waits[job]
        give_back(site)
        wait_for_phase(harness, job, Phase.INITIALIZING)
        wait_until(lambda: job not in harness.jobs.pod_waits, seconds=60, what="no word")


def take_creation(there):
    """Take the right to create pods from management's role."""
    role = there.find(ROLE, "wsc-appliance-session")
    for rule in role["rules"]:
        if rule["resources"] == ["pods"]:
            rule["verbs"].remove("create")
    there.replace(ROLE, role)


def assert_pods_end(site, job):
    wait_until(
        lambda: not [pod for pod in site.team.list(POD)[0] if name_of(pod).startswith(job)],
        seconds=120,
        what="the end of its pods",
    )


def test_what_is_wrong_with_a_namespace_is_said_in_one_sentence(kube, site):
    """As far as management's rights let it know."""
    name = f"Namespace {site.team.namespace} of session 'research'"
    there = site.api.in_namespace(site.team.namespace)
    assert find_fault(there, "research") is None
    assert not site.team.list(EVENT)[0]
    site.team._call("DELETE", f"/api/v1/namespaces/{site.team.namespace}")
    wait_until(lambda: find_fault(there, "research"), seconds=60, what="its deletion")
    ends = find_fault(there, "research")
    assert (ends.message, ends.has_rights, ends.is_gone) == (
        f"{name} is being deleted.",
        True,
        False,
    )
    take_rights(site.team)
    wait_until(lambda: find_fault(there, "research").is_gone, seconds=60, what="the end of rights")
    assert find_fault(there, "research").message == f"{name} is being deleted."
    nowhere = find_fault(site.api.in_namespace("nowhere"), "research")
    assert nowhere.message == "Namespace nowhere of session 'research' is gone."
    for kind in ("clusterrole", "clusterrolebinding"):  # as with rbac.tellUnmapped=false
        name = f"{site.api.namespace}.{NAME}-unmapped"
        kube.kubectl("delete", kind, name, namespace=site.api.namespace)
    words = "Namespace nowhere of session 'research' is gone, or management has no rights there: "
    wait_until(
        lambda: find_fault(site.api.in_namespace("nowhere"), "research").message.startswith(words),
        seconds=60,
        what=words,
    )
