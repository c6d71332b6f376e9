"""Kueue, played: one ClusterQueue with a quota of systems, over the Workloads of one namespace.

What decides how the appliance behaves is done as the real one does it: a Workload is admitted by
two conditions and an admission, evicted by a third one, and its quota is free only once whoever
owns it has taken the reservation away.
"""

import datetime as dt
import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from appliance.cluster.kubernetes.api import ApiServer
from appliance.cluster.kubernetes.object_kinds import (
    CUSTOM_RESOURCE_DEFINITION,
    Kind,
    Resource,
    name_of,
)
from appliance.core.errors import ClusterError
from appliance.management.kubernetes.kueue_workloads import (
    KUEUE_GROUP,
    SYSTEMS_RESOURCE,
    workload_kind,
)

KIND = workload_kind("v1beta1")
LOCAL_QUEUE = replace(KIND, plural="localqueues", name="LocalQueue")
CLUSTER_QUEUE = replace(KIND, plural="clusterqueues", name="ClusterQueue", is_namespaced=False)
RESOURCE_FLAVOR = replace(CLUSTER_QUEUE, plural="resourceflavors", name="ResourceFlavor")
_POLL_SECONDS = 0.1
_PUBLISHED = "config/components/crd/bases"
_ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def definition_of(kind: Kind) -> Resource:
    """Return a kind's definition: that of the checkout that KUEUE names, else a plain one.

    A server that is older than Kueue needs leaves out what it does not know of the published one,
    and converts nothing.
    """
    if checkout := os.environ.get("KUEUE"):
        file = Path(checkout) / _PUBLISHED / f"{KUEUE_GROUP}_{kind.plural}.yaml"
        published = yaml.safe_load(file.read_text())
        published["spec"].pop("conversion", None)
        for version in published["spec"]["versions"]:
            version["served"] = version["storage"] = version["name"] == kind.version
        return _without_empty_defaults(published)
    schema = {"type": "object", "properties": {"spec": _ANYTHING, "status": _ANYTHING}}
    singular = kind.name.lower()
    return {
        "metadata": {
            "name": f"{kind.plural}.{KUEUE_GROUP}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
        },
        "spec": {
            "group": KUEUE_GROUP,
            "scope": "Namespaced" if kind.is_namespaced else "Cluster",
            "names": {"kind": kind.name, "plural": kind.plural, "singular": singular},
            "versions": [
                {
                    "name": kind.version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


# `Any`: parts of a YAML document.
def _without_empty_defaults(part: Any) -> Any:
    """Return a schema without defaults of empty strings: Kubernetes 1.20 takes them for nulls.

    Lists whose keys have such a default are lists without keys then.
    """
    if isinstance(part, list):
        return [_without_empty_defaults(each) for each in part]
    if not isinstance(part, dict):
        return part
    return {
        name: _without_empty_defaults(each)
        for name, each in part.items()
        if (name, each) != ("default", "") and not name.startswith("x-kubernetes-list-")
    }


def install_kueue(admin: ApiServer) -> None:
    """Let the server know Workloads, and the kinds of which a site makes its queues."""
    for kind in (KIND, LOCAL_QUEUE, CLUSTER_QUEUE, RESOURCE_FLAVOR):
        body = definition_of(kind)
        if admin.find(CUSTOM_RESOURCE_DEFINITION, name_of(body)) is None:
            admin.create(CUSTOM_RESOURCE_DEFINITION, body)


class FakeKueue:
    """The controller.

    Args:
        api: The cluster, as its administrator.
        num_systems: The quota.
        is_open: Whether it admits anything yet.
    """

    def __init__(self, api: ApiServer, *, num_systems: int, is_open: bool = True) -> None:
        self._api, self.num_systems, self.is_open = api, num_systems, is_open
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.errors: list[BaseException] = []

    def __enter__(self) -> "FakeKueue":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(30)
        assert not self.errors, self.errors

    def workloads(self) -> dict[str, Resource]:
        """Return all Workloads by the job that they are of."""
        return {each["spec"]["queueName"] + "/" + name_of(each): each for each in self._list()}

    def find(self, job: str) -> Resource | None:
        return self._api.find(KIND, f"{job}-kueue")

    def evict(self, job: str, reason: str, message: str) -> None:
        workload = self.find(job)
        assert workload is not None
        self._set(workload, Evicted=(True, reason, message))

    def _list(self) -> list[Resource]:
        return sorted(
            self._api.list(KIND)[0],
            key=lambda each: (-each["spec"]["priority"], each["metadata"]["creationTimestamp"]),
        )

    def _run(self) -> None:
        while not self._stopping.wait(_POLL_SECONDS):
            try:
                self._cycle()
            except ClusterError as error:
                if self._stopping.is_set():
                    return
                print(f"fake Kueue: {error}")
            except BaseException as error:
                self.errors.append(error)
                raise

    def _cycle(self) -> None:
        found = [each for each in self._list() if not is_true(each, "Finished")]
        used = sum(systems_of(each) for each in found if is_true(each, "QuotaReserved"))
        for workload in found:
            has_quota, is_evicted = is_true(workload, "QuotaReserved"), is_true(workload, "Evicted")
            is_active = workload["spec"].get("active", True)
            if has_quota and not is_active and not is_evicted:
                self._set(workload, Evicted=(True, "Deactivated", "The workload is deactivated"))
            if has_quota or not is_active or not self.is_open:
                continue
            if is_evicted and not is_true(workload, "Requeued") and not is_active:
                continue
            if used + systems_of(workload) <= self.num_systems:
                used += systems_of(workload)
                self._admit(workload)
                continue
            self._wait(workload)
            self._preempt_for(workload, found)

    def _preempt_for(self, workload: Resource, found: list[Resource]) -> None:
        priority = workload["spec"]["priority"]
        for other in reversed(found):
            if is_true(other, "Admitted") and other["spec"]["priority"] < priority:
                if not is_true(other, "Evicted"):
                    message = f"Preempted to accommodate {name_of(workload)}"
                    self._set(other, Evicted=(True, "Preempted", message))
                return

    def _admit(self, workload: Resource) -> None:
        assigned = [
            {"name": each["name"], "count": each["count"]} for each in workload["spec"]["podSets"]
        ]
        admission = {"clusterQueue": "wafers", "podSetAssignments": assigned}
        self._set(
            workload,
            admission=admission,
            QuotaReserved=(True, "QuotaReserved", "Quota reserved in ClusterQueue wafers"),
            Admitted=(True, "Admitted", "The workload is admitted"),
            Evicted=(False, "QuotaReserved", "Previously evicted"),
        )

    def _wait(self, workload: Resource) -> None:
        message = f"insufficient quota for {SYSTEMS_RESOURCE}"
        self._set(workload, QuotaReserved=(False, "Pending", message))

    def _set(
        self,
        workload: Resource,
        *,
        admission: Resource | None = None,
        **wanted: tuple[bool, str, str],
    ) -> None:
        conditions = {
            each["type"]: each for each in (workload.get("status") or {}).get("conditions") or ()
        }
        before = dict(conditions)
        for kind, (holds, reason, message) in wanted.items():
            fields = {"type": kind, "status": str(holds), "reason": reason}
            fields["message"] = message or reason
            present = {name: before.get(kind, {}).get(name) for name in fields}
            if present != fields:
                now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
                conditions[kind] = {**fields, "lastTransitionTime": now}
        if conditions == before and admission is None:
            return
        status: dict[str, Any] = {"conditions": list(conditions.values())}
        if admission is not None:
            status["admission"] = admission
        metadata = {"resourceVersion": workload["metadata"]["resourceVersion"]}
        body = {"metadata": metadata, "status": status}
        self._api.patch(KIND, name_of(workload), body, subresource="status")


def is_true(workload: Resource, kind: str) -> bool:
    """Whether a condition of a Workload holds."""
    found = (workload.get("status") or {}).get("conditions") or ()
    return any(each["type"] == kind and each["status"] == "True" for each in found)


def systems_of(workload: Resource) -> int:
    """Return how many systems a Workload asks for."""
    return sum(
        each["count"] * int(container["resources"]["requests"].get(SYSTEMS_RESOURCE, 0))
        for each in workload["spec"]["podSets"]
        for container in each["template"]["spec"]["containers"]
    )
