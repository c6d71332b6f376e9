"""Controllers of Kubernetes, played: Deployments with one real management, claims and budgets."""

import hashlib
import json
import threading
from datetime import UTC, datetime

from appliance.cluster.kubernetes.object_kinds import (
    CONFIG_MAP,
    DEPLOYMENT,
    JOB_LABEL,
    POD,
    Kind,
    is_being_deleted,
    name_of,
    uid_of,
)
from appliance.core.errors import ClusterError
from tests.support.kube_server import account_token

CLAIM = Kind(group="", version="v1", plural="persistentvolumeclaims", name="PersistentVolumeClaim")
REPLICA_SET = Kind(group="apps", version="v1", plural="replicasets", name="ReplicaSet")
STATEFUL_SET = Kind(group="apps", version="v1", plural="statefulsets", name="StatefulSet")
_POLL_SECONDS = 1.0
"""Helm looks every two seconds; what is asked for more often only keeps the API server busy."""
_SINCE = {name: "2026-01-01T00:00:00Z" for name in ("lastUpdateTime", "lastTransitionTime")}
_AVAILABLE = [
    {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable", **_SINCE},
    {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable", **_SINCE},
]
"""Conditions of a Deployment that is ready: Helm 4 waits for them, and Helm 3 for the numbers."""


class PlayedControllers:
    """Deployments, claims and budgets, as their controllers treat them.

    Args:
        kube: The cluster.
        namespace: The namespace of the release.
        jobs: The namespace of jobs.
        appliance: The management that the Deployment is of.
        kubeconfig: Where it finds whom it is to the API server.
        name: The Deployment's name.
        take_settings: Whether management has the settings of the chart's ConfigMap.

    Attributes:
        pods_at_replacements: How many pods of jobs there were whenever management was replaced.
    """

    def __init__(self, kube, namespace, jobs, appliance, kubeconfig, *, name, take_settings=False):
        self._kube, self._admin = kube, kube.admin(namespace)
        self._budget = budget_kind(kube.admin())
        self._with_budgets = [kube.admin(name) for name in dict.fromkeys((namespace, jobs))]
        self._appliance, self._kubeconfig, self._name = appliance, kubeconfig, name
        self._take_settings = take_settings
        self.pods_at_replacements: list[int] = []
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
                deployments = {name_of(each): each for each in self._admin.list(DEPLOYMENT)[0]}
                self._keep_management(deployments.get(self._name))
                for deployment in deployments.values():
                    self._say_ready(deployment)
                self._collect({uid_of(each) for each in deployments.values()})
                for database in self._admin.list(STATEFUL_SET)[0]:
                    self._keep_database(database)
                for claim in self._admin.list(CLAIM)[0]:
                    self._keep_claim(claim)
                for admin in self._with_budgets:
                    for budget in admin.list(self._budget)[0]:
                        self._compute(admin, budget)
            except ClusterError as error:
                print(f"played controllers: {error}")

    def _keep_management(self, deployment):
        template = deployment and deployment["spec"]["replicas"] and deployment["spec"]["template"]
        if template == self._template:
            return
        if self._management is not None:  # jobs go on
            if template:
                self.pods_at_replacements.append(self._num_job_pods())
            self._management.terminate()
            self._management.wait(60)
            self._management = None
        self._template = template
        if template:
            token = account_token(self._admin, template["spec"]["serviceAccountName"])
            self._kube.write_kubeconfig(self._kubeconfig, token, self._admin.namespace)
            if self._take_settings:
                data = self._admin.find(CONFIG_MAP, f"{self._name}-jobs")["data"]
                self._appliance.take_settings(data["settings.yaml"])
            self._management = self._appliance.start_replica()

    def _num_job_pods(self):
        pods = [pod for admin in self._with_budgets for pod in admin.list(POD)[0]]
        return sum(JOB_LABEL in (pod["metadata"].get("labels") or {}) for pod in pods)

    def _say_ready(self, deployment):
        count = deployment["spec"]["replicas"]
        counts = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
        status = dict.fromkeys(counts, count)
        status["observedGeneration"] = deployment["metadata"]["generation"]
        status["conditions"] = _AVAILABLE
        if name_of(deployment) == self._name and not self._serves():
            return
        _say(self._admin, DEPLOYMENT, deployment, status)
        self._keep_replica_set(deployment)

    def _serves(self):
        return self._management is not None and self._appliance.leader_pid() == self._management.pid

    def _keep_replica_set(self, deployment):
        """Let helm, which waits for the newest set of replicas, find it."""
        spec, metadata = deployment["spec"], deployment["metadata"]
        digest = hashlib.sha256(json.dumps(spec["template"], sort_keys=True).encode()).hexdigest()
        name = f"{name_of(deployment)}-{digest[:10]}"
        found = self._admin.find(REPLICA_SET, name)
        if found is None:
            owner = {"apiVersion": "apps/v1", "kind": "Deployment", "controller": True}
            owner |= {"name": metadata["name"], "uid": metadata["uid"]}
            labels = spec["selector"]["matchLabels"]
            body = {"metadata": {"name": name, "labels": labels, "ownerReferences": [owner]}}
            parts = ("replicas", "selector", "template")
            body["spec"] = {part: spec[part] for part in parts}
            found = self._admin.create(REPLICA_SET, body)
        status = dict.fromkeys(("replicas", "readyReplicas"), spec["replicas"])
        status["observedGeneration"] = 1
        _say(self._admin, REPLICA_SET, found, status)

    def _collect(self, uids):
        """Delete sets of replicas whose Deployment is gone, which has none of these uids."""
        for found in self._admin.list(REPLICA_SET)[0]:
            if found["metadata"]["ownerReferences"][0]["uid"] not in uids:
                self._admin.delete(REPLICA_SET, name_of(found))

    def _keep_database(self, database):
        """Say that a StatefulSet of one runs, with the claims that its template asks for."""
        for template in database["spec"].get("volumeClaimTemplates") or ():
            metadata = template["metadata"]
            claim = f"{metadata['name']}-{name_of(database)}-0"
            if self._admin.find(CLAIM, claim) is None:
                made = {"name": claim, "labels": metadata.get("labels")}
                self._admin.create(CLAIM, {"metadata": made, "spec": template["spec"]})
        counts = ("replicas", "readyReplicas", "currentReplicas", "updatedReplicas")
        status = dict.fromkeys(counts, 1)
        status |= {"observedGeneration": database["metadata"]["generation"]}
        status |= dict.fromkeys(("currentRevision", "updateRevision"), "1")
        _say(self._admin, STATEFUL_SET, database, status)

    def _keep_claim(self, claim):
        if is_being_deleted(claim):
            self._admin.patch(CLAIM, name_of(claim), {"metadata": {"finalizers": None}})
        else:
            _say(self._admin, CLAIM, claim, {"phase": "Bound"})

    def _compute(self, admin, budget):
        wanted = budget["spec"].get("minAvailable", 0)  # pods of proxies are not played
        status = {
            "observedGeneration": budget["metadata"]["generation"],
            "expectedPods": 0,
            "currentHealthy": 0,
            "desiredHealthy": wanted,
            "disruptionsAllowed": 0,  # there are never as many pods as it wants
        }
        _say(admin, self._budget, budget, status)


def ended_job(*, succeeded, message=""):
    """Return the status of a Job that has ended: since Kubernetes 1.30 a server wants all of it."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    said = {"status": "True", "lastTransitionTime": now, "message": message[:32_000]}
    kinds = ("SuccessCriteriaMet", "Complete") if succeeded else ("FailureTarget", "Failed")
    return {
        "startTime": now,
        **({"completionTime": now} if succeeded else {}),
        "conditions": [{"type": kind, **said} for kind in kinds],
    }


def budget_kind(admin):
    """Return the budgets that the server has: v1 since Kubernetes 1.21, v1beta1 until 1.24."""
    version = "v1" if admin._call("GET", "/apis/policy/v1", missing=True) else "v1beta1"
    return Kind(
        group="policy", version=version, plural="poddisruptionbudgets", name="PodDisruptionBudget"
    )


def _say(admin, kind, found, status):
    """Write what an object's status has otherwise, or not at all."""
    present = found.get("status") or {}
    if {**present, **status} != present:
        admin.patch(kind, name_of(found), {"status": status}, subresource="status")
