"""Versions of the cluster's parts as a table."""

from collections.abc import Iterable
from dataclasses import dataclass

from csctl.output.table import Column
from protos.csctl.resources_pb2 import VersionInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """One row of `get version`."""

    name: str
    version: str


def components(versions: VersionInfo) -> Iterable[Component]:
    """Yield the cluster's parts, then csctl itself."""
    yield Component(name="cluster-server", version=versions.cluster_server)
    yield Component(name="job-operator", version=versions.job_operator)
    yield Component(name="cbcore", version=versions.cbcore)
    yield Component(name="csctl", version=versions.csctl)


COMPONENT_COLUMNS: tuple[Column[Component], ...] = (
    Column(header="COMPONENT", cell=lambda component: component.name),
    Column(header="VERSION", cell=lambda component: component.version),
)
