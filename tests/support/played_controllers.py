"""Controllers of Kubernetes, played: Deployments with one real management, claims and budgets."""

import hashlib
import json
import threading

from appliance.cluster.kubernetes.object_kinds import (
    CONFIG_MAP,
    DEPLOYMENT,
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
BUDGET = Kind(
    group="policy", version="v1beta1", plural="poddisruptionbudgets", name="PodDisruptionBudget"
)
_POLL_SECONDS = 0.3


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
    """

    def __init__(self, kube, namespace, jobs, appliance, kubeconfig, *, name, take_settings=False):
        self._kube, self._admin = kube, kube.admin(namespace)
        self._with_budgets = [kube.admin(name) for name in dict.fromkeys((namespace, jobs))]
        self._appliance, self._kubeconfig, self._name = appliance, kubeconfig, name
        self._take_settings = take_settings
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
                self._keep_management(self._admin.find(DEPLOYMENT, self._name))
                for deployment in self._admin.list(DEPLOYMENT)[0]:
                    self._say_ready(deployment)
                self._collect()
                for database in self._admin.list(STATEFUL_SET)[0]:
                    self._keep_database(database)
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
            if self._take_settings:
                data = self._admin.find(CONFIG_MAP, f"{self._name}-jobs")["data"]
                self._appliance.take_settings(data["settings.yaml"])
            self._management = self._appliance.start_replica()

    def _say_ready(self, deployment):
        count = deployment["spec"]["replicas"]
        counts = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
        status = dict.fromkeys(counts, count)
        status["observedGeneration"] = deployment["metadata"]["generation"]
        if name_of(deployment) == self._name and not self._serves():
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
        self._admin.patch(STATEFUL_SET, name_of(database), {"status": status}, subresource="status")

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
