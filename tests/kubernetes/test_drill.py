"""The drill of `deploy/drill.sh`: install, train, drain, upgrade, uninstall, reinstall, train.

helm, kubectl, the API server, management, the pods' programs and the client are real. Controllers
and kubelets are played: hooks run, the Deployment's management is a process of this machine, and a
disruption budget is computed as Kubernetes does.
"""

import hashlib
import json
import os
import shutil
import subprocess
import threading

import pytest

from appliance.cluster.kubernetes.object_kinds import (
    DEPLOYMENT,
    Kind,
    is_being_deleted,
    name_of,
    uid_of,
)
from appliance.core.errors import ClusterError
from tests.kubernetes.test_chart_certificates import JobRunner
from tests.support.client import client_environment, client_venv
from tests.support.fake_nodes import ROOT, FakeNodes
from tests.support.kube_appliance import KubeAppliance
from tests.support.kube_server import TOOLS, account_token, new_namespace

pytestmark = [pytest.mark.client, pytest.mark.slow]

NAME = "drill-wsc-appliance"
ADDRESSES = {"node-1": "127.0.0.1", "node-2": "127.0.0.2"}
LABELS = {"app.kubernetes.io/instance": "drill", "app.kubernetes.io/component": "job"}
CLAIM = Kind(group="", version="v1", plural="persistentvolumeclaims", name="PersistentVolumeClaim")
REPLICA_SET = Kind(group="apps", version="v1", plural="replicasets", name="ReplicaSet")
BUDGET = Kind(
    group="policy", version="v1beta1", plural="poddisruptionbudgets", name="PodDisruptionBudget"
)
NODE = Kind(group="", version="v1", plural="nodes", name="Node", is_namespaced=False)
_POLL_SECONDS = 0.3


class PlayedControllers:
    """Deployments, claims and budgets, as their controllers treat them.

    Args:
        kube: The cluster.
        namespace: The namespace of the release.
        jobs: The namespace of jobs.
        appliance: The management that the Deployment is of.
        kubeconfig: Where it finds whom it is to the API server.
    """

    def __init__(self, kube, namespace, jobs, appliance, kubeconfig):
        self._kube, self._admin = kube, kube.admin(namespace)
        self._with_budgets = [kube.admin(name) for name in dict.fromkeys((namespace, jobs))]
        self._appliance, self._kubeconfig = appliance, kubeconfig
        self._management = None
        self._template = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stopping.set()
        self._thread.join(60)

    def _run(self):
        while not self._stopping.wait(_POLL_SECONDS):
            try:
                self._keep_management(self._admin.find(DEPLOYMENT, NAME))
                for deployment in self._admin.list(DEPLOYMENT)[0]:
                    self._say_ready(deployment)
                self._collect()
                for claim in self._admin.list(CLAIM)[0]:
                    self._keep_claim(claim)
                for admin in self._with_budgets:
                    for budget in admin.list(BUDGET)[0]:
                        self._compute(admin, budget)
            except ClusterError as error:
                print(f"played controllers: {error}")

    def _keep_management(self, deployment):
        template = deployment and deployment["spec"]["replicas"] and deployment["spec"]["template"]
        if template == self._template:
            return
        if self._management is not None:  # jobs go on
            self._management.terminate()
            self._management.wait(60)
            self._management = None
        self._template = template
        if template:
            token = account_token(self._admin, template["spec"]["serviceAccountName"])
            self._kube.write_kubeconfig(self._kubeconfig, token, self._admin.namespace)
            self._management = self._appliance.start_replica()

    def _say_ready(self, deployment):
        count = deployment["spec"]["replicas"]
        counts = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
        status = dict.fromkeys(counts, count)
        status["observedGeneration"] = deployment["metadata"]["generation"]
        if name_of(deployment) == NAME and not self._serves():
            return
        self._admin.patch(DEPLOYMENT, name_of(deployment), {"status": status}, subresource="status")
        self._keep_replica_set(deployment)

    def _serves(self):
        return self._management is not None and self._appliance.leader_pid() == self._management.pid

    def _keep_replica_set(self, deployment):
        """Let helm, which waits for the newest set of replicas, find it."""
        spec, metadata = deployment["spec"], deployment["metadata"]
        digest = hashlib.sha256(json.dumps(spec["template"], sort_keys=True).encode()).hexdigest()
        name = f"{name_of(deployment)}-{digest[:10]}"
        if self._admin.find(REPLICA_SET, name) is None:
            owner = {"apiVersion": "apps/v1", "kind": "Deployment", "controller": True}
            owner |= {"name": metadata["name"], "uid": metadata["uid"]}
            labels = spec["selector"]["matchLabels"]
            body = {"metadata": {"name": name, "labels": labels, "ownerReferences": [owner]}}
            parts = ("replicas", "selector", "template")
            self._admin.create(REPLICA_SET, {**body, "spec": {part: spec[part] for part in parts}})
        status = dict.fromkeys(("replicas", "readyReplicas"), spec["replicas"])
        status["observedGeneration"] = 1
        self._admin.patch(REPLICA_SET, name, {"status": status}, subresource="status")

    def _collect(self):
        """Delete sets of replicas whose Deployment is gone."""
        uids = {uid_of(each) for each in self._admin.list(DEPLOYMENT)[0]}
        for found in self._admin.list(REPLICA_SET)[0]:
            if found["metadata"]["ownerReferences"][0]["uid"] not in uids:
                self._admin.delete(REPLICA_SET, name_of(found))

    def _keep_claim(self, claim):
        if is_being_deleted(claim):
            self._admin.patch(CLAIM, name_of(claim), {"metadata": {"finalizers": None}})
        elif (claim.get("status") or {}).get("phase") != "Bound":
            bound = {"status": {"phase": "Bound"}}
            self._admin.patch(CLAIM, name_of(claim), bound, subresource="status")

    def _compute(self, admin, budget):
        wanted = budget["spec"].get("minAvailable", 0)  # pods of proxies are not played
        status = {
            "observedGeneration": budget["metadata"]["generation"],
            "expectedPods": 0,
            "currentHealthy": 0,
            "desiredHealthy": wanted,
            "disruptionsAllowed": 0,  # there are never as many pods as it wants
        }
        admin.patch(BUDGET, name_of(budget), {"status": status}, subresource="status")


@pytest.fixture
def namespace(kube):
    admin = kube.admin()
    name = new_namespace(admin)
    for node in ADDRESSES:
        admin.create(NODE, {"metadata": {"name": node}})
    yield name
    for node in ADDRESSES:
        admin.delete(NODE, node)
    admin._call("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture(params=["one namespace", "a namespace for jobs"])
def jobs(request, kube, namespace):
    """The namespace of jobs."""
    if request.param == "one namespace":
        yield namespace
        return
    admin = kube.admin()
    name = new_namespace(admin)
    yield name
    admin._call("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture
def appliance(tmp_path, namespace, jobs):
    settings = {"leaseName": NAME, "labels": LABELS}
    if jobs != namespace:
        settings["sessions"] = {"job-operator": {"namespace": jobs}}
        settings["tellUnmapped"] = True
    appliance = KubeAppliance(
        tmp_path / "appliance", tmp_path / "kubeconfig", lease_seconds=60.0, settings=settings
    )
    appliance.start_proxy()
    yield appliance
    appliance.close()


@pytest.fixture
def user(appliance, tmp_path):
    """Return a program that runs a shell command where the user works."""
    home = tmp_path / "home"
    shutil.copytree(ROOT / "examples" / "gpt", home / "gpt")
    path = f"{client_venv()}/bin:{ROOT}/.venv/bin:/usr/bin:/bin"
    given = client_environment() | {"HOME": str(home), "PATH": path}
    given["CSCONFIG_PATH"] = str(appliance.appliance.config_path)
    exports = "\n".join(
        f"export {name}='{given[name]}'" for name in ("HOME", "PATH", "CSCONFIG_PATH")
    )
    program = tmp_path / "as-user"
    program.write_text(f'#!/bin/bash\n{exports}\nunset PYTHONPATH KUBECONFIG\nexec bash -c "$1"\n')
    program.chmod(0o755)
    return program


def test_the_drill_finds_everything_as_the_documents_say(appliance, user, kube, namespace, jobs):
    tmp_path = user.parent
    helm_home = {name: str(tmp_path / "helm") for name in ("HELM_CACHE_HOME", "HELM_DATA_HOME")}
    variables = {
        "KUBECONFIG": str(kube.kubeconfig),
        "PATH": f"{TOOLS}:{os.environ['PATH']}",
        "WSC_DRILL_USER": str(user),
        "WSC_DRILL_STEPS": "25",
        "WSC_DRILL_SHORT": "6",
        "WSC_DRILL_JOBS": jobs,
    }
    values = ("postgresql.mode=external", "postgresql.external.host=db", "postgresql.password=x")
    options = [part for value in values for part in ("--set", value)]
    kubelet = tmp_path / "kubelet"
    with (
        JobRunner(kube, namespace, tmp_path).running() as hooks,
        FakeNodes(kube.admin(jobs), addresses=ADDRESSES, directory=kubelet),
        PlayedControllers(kube, namespace, jobs, appliance, tmp_path / "kubeconfig"),
    ):
        done = subprocess.run(
            ["bash", str(ROOT / "deploy" / "drill.sh"), namespace, *options],
            env={**os.environ, **helm_home, **variables},
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
    said = f"{done.stdout}{done.stderr}"
    assert done.returncode == 0, f"{said}\n{hooks.output}\n{appliance.logs()}"
    assert "draining node node-" in said
    assert done.stdout.splitlines()[-1] == "drill: everything is as docs/deployment.md says"
