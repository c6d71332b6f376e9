"""Systems, nodes and node groups as tables."""

from collections.abc import Iterable
from dataclasses import dataclass

from csctl.output.table import NOT_APPLICABLE, Column
from protos.csctl.resources_pb2 import NodeGroup, NodeGroupRoleStatus, NodeInfo

_SYSTEM = "system"


def _is_system(node: NodeInfo) -> bool:
    return node.role == _SYSTEM


def _percent(node: NodeInfo, value: float) -> str:
    """Return the load; 100 % is all cores, or all memory, of the node."""
    return NOT_APPLICABLE if _is_system(node) else f"{value:.2f}%"


def _in_use(node: NodeInfo) -> str:
    if not _is_system(node):
        return NOT_APPLICABLE
    return "InUse" if node.wse_in_use else "Idle"


def _job_ids(node: NodeInfo) -> str:
    return ",".join(node.job_ids) or node.job_id


_NAME: Column[NodeInfo] = Column(header="NAME", cell=lambda node: node.meta.name)
_TYPE: Column[NodeInfo] = Column(header="TYPE", cell=lambda node: node.role)
_CPU: Column[NodeInfo] = Column(
    header="CPU", cell=lambda node: _percent(node, node.cpu_load_percentage)
)
_MEM: Column[NodeInfo] = Column(
    header="MEM", cell=lambda node: _percent(node, node.memory_use_percentage)
)
_IN_USE: Column[NodeInfo] = Column(header="SYSTEM-IN-USE", cell=_in_use)
_SESSION: Column[NodeInfo] = Column(header="SESSION", cell=lambda node: node.session)
_JOBID: Column[NodeInfo] = Column(header="JOBID", cell=_job_ids)
_JOBLABELS: Column[NodeInfo] = Column(
    header="JOBLABELS", cell=lambda node: ",".join(node.job_labels)
)
_STATE: Column[NodeInfo] = Column(header="STATE", cell=lambda node: node.state)
_NOTES: Column[NodeInfo] = Column(header="NOTES", cell=lambda node: node.notes)
_VERSION: Column[NodeInfo] = Column(
    header="VERSION", cell=lambda node: node.platform_version, is_wide=True
)
_HOSTNAME: Column[NodeInfo] = Column(
    header="HOSTNAME", cell=lambda node: node.hostname, is_wide=True
)
_CPU_CAPACITY: Column[NodeInfo] = Column(
    header="CPU-CAPACITY", cell=lambda node: _cores(node.cpu_capacity_cores), is_wide=True
)
_MEM_CAPACITY: Column[NodeInfo] = Column(
    header="MEM-CAPACITY", cell=lambda node: node.memory_capacity, is_wide=True
)

CLUSTER_COLUMNS: tuple[Column[NodeInfo], ...] = (
    _NAME,
    _TYPE,
    _CPU,
    _MEM,
    _IN_USE,
    _JOBID,
    _JOBLABELS,
    _STATE,
    _NOTES,
)
SYSTEM_COLUMNS: tuple[Column[NodeInfo], ...] = (
    _NAME,
    _SESSION,
    _IN_USE,
    _JOBID,
    _JOBLABELS,
    _STATE,
    _NOTES,
    _VERSION,
    _HOSTNAME,
)
NODE_COLUMNS: tuple[Column[NodeInfo], ...] = (
    _NAME,
    _SESSION,
    _TYPE,
    _CPU,
    _MEM,
    _JOBID,
    _STATE,
    _NOTES,
    _CPU_CAPACITY,
    _MEM_CAPACITY,
    _HOSTNAME,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRole:
    """One row of `get nodegroups`: what a group offers to one role."""

    group: NodeGroup
    role: str
    status: NodeGroupRoleStatus


def group_roles(groups: Iterable[NodeGroup]) -> Iterable[GroupRole]:
    """Yield the rows of the groups: one for each role, by name; one for a group without roles."""
    for group in groups:
        roles = group.status.role_status
        for role in sorted(roles):
            yield GroupRole(group=group, role=role, status=roles[role])
        if not roles:
            yield GroupRole(group=group, role="", status=NodeGroupRoleStatus())


NODE_GROUP_COLUMNS: tuple[Column[GroupRole], ...] = (
    Column(header="NAME", cell=lambda row: row.group.meta.name),
    Column(header="SESSION", cell=lambda row: row.group.status.namespace),
    Column(header="ROLE", cell=lambda row: row.role),
    Column(header="NODES", cell=lambda row: str(row.status.count)),
    Column(header="CPU", cell=lambda row: _cores(row.status.cpu_allocatable_cores)),
    Column(header="MEM", cell=lambda row: row.status.memory_allocatable),
    Column(header="JOBID", cell=lambda row: row.group.status.running_job),
    Column(
        header="CPU-CAPACITY",
        cell=lambda row: _cores(row.status.cpu_capacity_cores),
        is_wide=True,
    ),
    Column(header="MEM-CAPACITY", cell=lambda row: row.status.memory_capacity, is_wide=True),
    Column(header="NODE-NAMES", cell=lambda row: ",".join(row.status.names), is_wide=True),
)


def _cores(count: float) -> str:
    return f"{count:g}"
