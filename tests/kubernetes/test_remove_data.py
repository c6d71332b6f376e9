"""`deploy/remove-data.sh` removes what stays of one release, and nothing of others."""

import os
import subprocess

import pytest

from appliance.cluster.kubernetes.object_kinds import (
    DEPLOYMENT,
    FINALIZER,
    LEASE,
    POD,
    SECRET,
    WSCSYSTEM,
    WSJOB,
    Kind,
)
from tests.support.kube_server import ROOT, TOOLS, new_namespace

CLAIM = Kind(group="", version="v1", plural="persistentvolumeclaims", name="PersistentVolumeClaim")
KINDS = (WSJOB, WSCSYSTEM, SECRET, CLAIM, LEASE)
LABEL = "app.kubernetes.io/instance"


@pytest.fixture
def own(kube):
    return kube.admin(new_namespace(kube.admin()))


@pytest.fixture
def team(kube):
    return kube.admin(new_namespace(kube.admin()))


def make(admin, kind, name, release):
    metadata = {"name": name, "labels": {LABEL: release}}
    resources = {"requests": {"storage": "1Gi"}}
    spec = {
        WSJOB: {"type": "execute"},
        WSCSYSTEM: {},
        CLAIM: {"accessModes": ["ReadWriteOnce"], "resources": resources},
        LEASE: {},
    }.get(kind)
    made = admin.create(
        kind, {"metadata": metadata, **({"spec": spec} if spec is not None else {})}
    )
    if kind is CLAIM:  # a controller's, that no pod mounts it
        admin.patch(kind, name, {"metadata": {"finalizers": None}})
    return made


def make_release(own, team, release):
    for kind in KINDS:
        make(own, kind, f"{release}-a", release)
    make(team, WSJOB, f"{release}-b", release)
    # Those that are no part of the release have no label of it.
    own.create(LEASE, {"metadata": {"name": f"{release}-wsc-appliance"}, "spec": {}})
    own.create(SECRET, {"metadata": {"name": f"{release}-wsc-appliance-tls"}})


def left(own, team, release):
    found = [
        (kind.plural, each["metadata"]["name"])
        for admin in (own, team)
        for kind in KINDS
        for each in admin.list(kind)[0]
    ]
    return sorted(each for each in found if each[1].startswith(f"{release}-"))


def remove(kube, *arguments):
    return subprocess.run(
        [str(ROOT / "deploy" / "remove-data.sh"), *arguments],
        env={
            **os.environ,
            "KUBECONFIG": str(kube.kubeconfig),
            "PATH": f"{TOOLS}:{os.environ['PATH']}",
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_it_removes_everything_of_its_release_and_nothing_of_another(kube, own, team):
    make_release(own, team, "wafer")
    make_release(own, team, "other")
    others = left(own, team, "other")
    done = remove(kube, own.namespace, "wafer", team.namespace)
    assert done.returncode == 0, done.stderr
    assert left(own, team, "wafer") == []
    assert left(own, team, "other") == others
    again = remove(kube, own.namespace, "wafer", team.namespace)
    assert again.returncode == 0, again.stderr


def test_wsjobs_of_namespaces_that_are_not_named_stay(kube, own, team):
    make_release(own, team, "wafer")
    assert remove(kube, own.namespace, "wafer").returncode == 0
    assert left(own, team, "wafer") == [("wsjobs", "wafer-b")]


def test_it_refuses_while_the_release_is_installed(kube, own, team):
    make_release(own, team, "wafer")
    before = left(own, team, "wafer")
    labels = {LABEL: "wafer"}
    pods = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
    spec = {"selector": {"matchLabels": labels}, "template": pods}
    own.create(DEPLOYMENT, {"metadata": {"name": "m", "labels": labels}, "spec": spec})
    done = remove(kube, own.namespace, "wafer", team.namespace)
    assert done.returncode == 1
    assert f"helm uninstall wafer --namespace {own.namespace}" in done.stderr
    assert left(own, team, "wafer") == before


def test_it_refuses_while_a_job_has_not_ended(kube, own, team):
    make_release(own, team, "wafer")
    before = left(own, team, "wafer")
    team.patch(WSJOB, "wafer-b", {"metadata": {"finalizers": [FINALIZER]}})
    done = remove(kube, own.namespace, "wafer", team.namespace)
    assert done.returncode == 1
    assert f"jobs in {team.namespace} have not ended: wafer-b" in done.stderr
    assert f"kubectl --namespace {team.namespace} patch wsjobs NAME" in done.stderr
    assert left(own, team, "wafer") == before
    team.patch(WSJOB, "wafer-b", {"metadata": {"finalizers": None}})


def test_a_namespace_that_was_deleted_under_jobs_is_let_go(kube, own, team):
    """Its management and its rights went with it, so nobody ends these jobs."""
    make_release(own, team, "wafer")
    for admin, name in ((own, "wafer-a"), (team, "wafer-b")):
        admin.patch(WSJOB, name, {"metadata": {"finalizers": [FINALIZER]}})
        kube.admin()._call("DELETE", f"/api/v1/namespaces/{admin.namespace}")
        assert admin.delete(WSJOB, name)
        assert admin.find(WSJOB, name), "its finalizer holds it"
    done = remove(kube, own.namespace, "wafer", team.namespace)
    assert done.returncode == 0, done.stderr
    assert left(own, team, "wafer") == []


def test_a_namespace_that_is_being_deleted_is_not_let_go_while_a_pod_of_a_job_runs(kube, own, team):
    make_release(own, team, "wafer")
    team.patch(WSJOB, "wafer-b", {"metadata": {"finalizers": [FINALIZER]}})
    spec = {"automountServiceAccountToken": False, "containers": [{"name": "a", "image": "a"}]}
    team.create(POD, {"metadata": {"name": "chief", "labels": {LABEL: "wafer"}}, "spec": spec})
    team.patch(POD, "chief", {"status": {"phase": "Running"}}, subresource="status")
    kube.admin()._call("DELETE", f"/api/v1/namespaces/{team.namespace}")
    before = left(own, team, "wafer")
    done = remove(kube, own.namespace, "wafer", team.namespace)
    assert done.returncode == 1
    assert "is being deleted, and pods of jobs still run: chief" in done.stderr
    assert left(own, team, "wafer") == before
    team.patch(WSJOB, "wafer-b", {"metadata": {"finalizers": None}})


def test_it_says_how_it_is_called(kube):
    done = remove(kube, "wafer")
    assert done.returncode == 2
    assert "NAMESPACE RELEASE" in done.stderr
