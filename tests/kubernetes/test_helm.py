"""The chart is installed, upgraded, rolled back and uninstalled by the real Helm 3 and 4.

There are no controllers, so nothing makes pods of the Deployment: what is tested is that the server
takes every object, that the account which is made may do what the controller does, and that jobs
end before it goes.
"""

import os
import subprocess
import sys
import threading

import pytest
import yaml

from appliance.cluster.kubernetes.leadership import Leadership
from appliance.cluster.kubernetes.object_kinds import (
    CONFIG_MAP,
    DEPLOYMENT,
    LEASE,
    WSJOB,
    Kind,
    name_of,
)
from appliance.cluster.kubernetes.options import parse_options
from appliance.core.clock import SystemClock
from tests.support.fake_nodes import FakeNodes
from tests.support.kube_harness import running_kube_harness
from tests.support.kube_jobs import make_options
from tests.support.kube_server import CHART, ROOT, account_token, find_tool, new_namespace
from tests.support.management import new_job
from tests.support.played_controllers import ended_job
from tests.support.waiting import wait_until

RELEASE = "wsc"
NAME = "wsc-wsc-appliance"
SERVICE = Kind(group="", version="v1", plural="services", name="Service")
JOB = Kind(group="batch", version="v1", plural="jobs", name="Job")
VALUES = (
    "tls.source=secret",
    "tls.secretName=tls",
    "postgresql.existingSecret=database",
    "crds.upgrade=false",
)
"""No hook has to run for an install or an upgrade."""


@pytest.fixture
def admin(kube):
    server = kube.admin()
    namespace = new_namespace(server)
    yield kube.admin(namespace)
    server._call("DELETE", f"/api/v1/namespaces/{namespace}")


@pytest.fixture
def helm(kube, admin, tmp_path):
    """Return a function that runs Helm 3 in the test's namespace."""
    return runner("helm", kube, admin, tmp_path)


@pytest.fixture
def helm4(kube, admin, tmp_path):
    return runner("helm4", kube, admin, tmp_path)


def runner(program, kube, admin, home):
    def run(*arguments, given=(), is_refused=False):
        sets = [part for value in (*VALUES, *given) for part in ("--set", value)]
        done = subprocess.run(
            [
                *(find_tool(program), *arguments),
                *("--kubeconfig", str(kube.kubeconfig), "--namespace", admin.namespace),
                *(sets if arguments[0] in ("install", "upgrade") else ()),
            ],
            env={**os.environ, "HOME": str(home)},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert bool(done.returncode) == is_refused, done.stderr or done.stdout
        return done.stderr if is_refused else done.stdout

    return run


def settings_of(admin):
    return admin.find(CONFIG_MAP, f"{NAME}-jobs")["data"]["settings.yaml"]


def play_hook(admin, kube, directory):
    """Do what the pod of the hook's job would, and say that it has succeeded."""
    wait_until(lambda: admin.find(JOB, f"{NAME}-end-jobs"), seconds=60, what="the hook")
    hook = admin.find(JOB, f"{NAME}-end-jobs")
    pod = hook["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["command"] == ["python", "-m", "appliance.cluster.kubernetes.hooks.uninstall"]
    token = account_token(admin, pod["serviceAccountName"])
    config = kube.write_kubeconfig(directory / "hook", token, admin.namespace)
    words = [sys.executable, *container["command"][1:], *container["args"]]
    variables = {"KUBECONFIG": str(config), "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    played = subprocess.run(
        words, env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )
    assert played.returncode == 0, played.stderr
    admin.patch(JOB, name_of(hook), {"status": ended_job(succeeded=True)}, subresource="status")


class PlayedManagement:
    """Holds the Lease until its Deployment is scaled to zero, as the pod of one does."""

    def __init__(self, admin, api):
        self._admin = admin
        self.has_lost = threading.Event()
        self._leadership = Leadership(
            api,
            name=NAME,
            identity="management",
            seconds=60.0,
            clock=SystemClock(),
            on_lost=self.has_lost.set,
        )
        assert self._leadership.acquire()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self):
        wait_until(
            lambda: self._admin.find(DEPLOYMENT, NAME)["spec"]["replicas"] == 0,
            seconds=240,
            what="management without replicas",
        )
        self._leadership.release()

    def join(self):
        self._thread.join(240)
        assert not self.has_lost.is_set()


FIXED = {
    "storage.size=10Gi": "claim {name}-data has 50Gi already: claims only grow",
    "storage.size=49.9Gi": "Set storage.size to 50Gi or more",
    "storage.accessModes={ReadWriteMany}": 'claim {name}-data has ["ReadWriteOnce"]',
    "storage.storageClassName=nfs": 'claim {name}-data has ""',
    "postgresql.size=20Gi": "delete statefulset {name}-postgresql --cascade=orphan. Then upgrade",
    "postgresql.storageClassName=fast": 'StatefulSet {name}-postgresql was made with ""',
    "podSecurity.runAsUser=20001": "the data volume is user 10001's, whom others cannot read",
    "postgresql.runAsUser=70": "the database's files are user 999's, which PostgreSQL wants",
    "nameOverride=other": "they would be wsc-other (other): another appliance",
    "fullnameOverride=other": "they would be other (wsc-appliance): another appliance",
    "fullnameOverride=wsc-wsc-appliance,nameOverride=x": "Set nameOverride and fullnameOverride as",
}
"""What an upgrade refuses, by the value that asks for it."""


def test_an_upgrade_refuses_what_kubernetes_lets_nobody_change(kube, admin, helm):
    """Before it changes anything; and what it can change, it does."""
    chart, dry = str(CHART), ("upgrade", RELEASE, str(CHART), "--dry-run=server")
    helm("install", RELEASE, chart)
    for value, words in FIXED.items():
        assert words.format(name=NAME) in helm(*dry, given=(value,), is_refused=True), value
    owned = f"namespace {admin.namespace} is that of release {RELEASE} in namespace"
    assert owned in helm("install", "second", chart, is_refused=True)
    for value in ("storage.size=50Gi", "storage.size=53687091200", "postgresql.size=10240Mi"):
        helm(*dry, given=(value,))
    services = {NAME, f"{NAME}-inner", f"{NAME}-postgresql"}
    for kind in ("LoadBalancer", "NodePort", "ClusterIP"):
        helm("upgrade", RELEASE, chart, given=(f"service.type={kind}", "service.nodePort=31000"))
        outer = {f"{NAME}-external"} if kind != "ClusterIP" else set()
        assert {name_of(each) for each in admin.list(SERVICE)[0]} == services | outer
    admin.delete(SERVICE, NAME)
    ports = [{"name": "clients", "port": 9000}]
    admin.create(SERVICE, {"metadata": {"name": NAME}, "spec": {"ports": ports}})
    refused = helm(*dry, is_refused=True)  # as an earlier chart made it for a load balancer
    assert f"old one, then upgrade: kubectl -n {admin.namespace} delete service {NAME}" in refused


def test_install_upgrade_rollback_uninstall(kube, admin, helm4, tmp_path):
    """Helm 4 applies by the server, which tells apart who has set what."""
    chart = str(CHART)
    helm4("install", RELEASE, chart)
    first = admin.find(DEPLOYMENT, NAME)
    assert parse_options(settings_of(admin), source="the chart").placement_seconds == 300
    api = kube.as_account(admin.namespace, account_token(admin, NAME))
    with (
        FakeNodes(admin) as nodes,
        running_kube_harness(tmp_path, api, make_options(tmp_path)) as harness,
    ):
        management = PlayedManagement(admin, api)
        job = harness.submit(new_job("wsjob-a"))
        wait_until(lambda: len(nodes.started) == 2, seconds=60, what="running pods")
        helm4("upgrade", RELEASE, chart, given=("jobs.placementSeconds=60", "systems.count=4"))
        assert parse_options(settings_of(admin), source="the chart").placement_seconds == 60
        changed = admin.find(DEPLOYMENT, NAME)
        assert changed["metadata"]["uid"] == first["metadata"]["uid"]
        assert changed["metadata"]["generation"] > first["metadata"]["generation"]
        pods = {pod["status"]["phase"] for pod in nodes.pods()}
        assert pods == {"Running"}, "an upgrade ended a running job"
        helm4("rollback", RELEASE, "1")
        assert parse_options(settings_of(admin), source="the chart").placement_seconds == 300
        assert admin.find(DEPLOYMENT, NAME)["spec"]["template"] == first["spec"]["template"]
        assert pods == {pod["status"]["phase"] for pod in nodes.pods()}, "a rollback ended a job"
        hook = threading.Thread(target=play_hook, args=(admin, kube, tmp_path))
        hook.start()
        helm4("uninstall", RELEASE)
        hook.join(300)
        management.join()
        assert harness.jobs.load(job).phase.is_terminal
    left = yaml.safe_load(kube.kubectl("get", "all", "-o", "yaml", namespace=admin.namespace))
    assert left["items"] == []
    for kind in (WSJOB, LEASE):
        assert not admin.list(kind)[0]
