"""The kinds of Kubernetes objects that the appliance uses, and the labels it puts on them."""

# `Any`: objects of the Kubernetes API are JSON, of kinds that users may extend.
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Resource = Mapping[str, Any]
"""An object of the Kubernetes API, as JSON."""

GROUP = "wsc.open-appliance.org"
"""API group of our own kinds, and prefix of our labels and annotations."""

VERSION = "v1"

JOB_LABEL = f"{GROUP}/job"
"""Label with the id of the job that an object belongs to."""

LEADER_LABEL = f"{GROUP}/leader"
"""Label of the pod of the management that leads."""

ROLE_LABEL = f"{GROUP}/role"
MEMBER_LABEL = f"{GROUP}/member"

FINALIZER = f"{GROUP}/job-ended"
"""Keeps a wsjob until nothing of its job runs any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of objects.

    Attributes:
        group: Its API group; empty for the core.
        version: Version of the group.
        plural: Its name in paths.
        name: Its name in objects.
        is_namespaced: Whether each object is in a namespace; else it is the whole cluster's.
    """

    group: str
    version: str
    plural: str
    name: str
    is_namespaced: bool = True

    @property
    def api_version(self) -> str:
        """What objects of this kind say in `apiVersion`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str, name: str = "", subresource: str = "") -> str:
        """Return the path of the collection, of one object or of a part of it.

        Args:
            namespace: Empty for the collection over all namespaces.
            name: Of one object.
            subresource: Part of it.
        """
        root = f"/apis/{self.group}" if self.group else "/api"
        place = f"namespaces/{namespace}" if self.is_namespaced and namespace else ""
        parts = [f"{root}/{self.version}", place, self.plural, name, subresource]
        return "/".join(part for part in parts if part)


POD = Kind(group="", version="v1", plural="pods", name="Pod")
CONFIG_MAP = Kind(group="", version="v1", plural="configmaps", name="ConfigMap")
SECRET = Kind(group="", version="v1", plural="secrets", name="Secret")
SERVICE_ACCOUNT = Kind(group="", version="v1", plural="serviceaccounts", name="ServiceAccount")
LIMIT_RANGE = Kind(group="", version="v1", plural="limitranges", name="LimitRange")
LEASE = Kind(group="coordination.k8s.io", version="v1", plural="leases", name="Lease")
DEPLOYMENT = Kind(group="apps", version="v1", plural="deployments", name="Deployment")
EVENT = Kind(group="", version="v1", plural="events", name="Event")
CUSTOM_RESOURCE_DEFINITION = Kind(
    group="apiextensions.k8s.io",
    version="v1",
    plural="customresourcedefinitions",
    name="CustomResourceDefinition",
    is_namespaced=False,
)
WSJOB = Kind(group=GROUP, version=VERSION, plural="wsjobs", name="WsJob")
WSCSYSTEM = Kind(group=GROUP, version=VERSION, plural="wscsystems", name="WscSystem")


def name_of(resource: Resource) -> str:
    """Return an object's name."""
    return str(resource["metadata"]["name"])


def uid_of(resource: Resource) -> str:
    """Return what distinguishes an object from an earlier one of its name."""
    return str(resource["metadata"]["uid"])


def version_of(resource: Resource) -> str:
    """Return the version of an object, or of a list."""
    return str(resource["metadata"].get("resourceVersion", ""))


def job_label(resource: Resource) -> str:
    """Return the id of the job that an object is labelled with; empty if there is none."""
    return str(resource["metadata"].get("labels", {}).get(JOB_LABEL, ""))


def is_being_deleted(resource: Resource) -> bool:
    """Whether an object's deletion was requested, and it still exists."""
    return bool(resource["metadata"].get("deletionTimestamp"))
