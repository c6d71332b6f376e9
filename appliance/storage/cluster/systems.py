"""The cluster as rows: systems, nodes, node groups and maintenance windows."""

from collections.abc import Sequence

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from appliance.core.cluster.requirements import GroupKind
from appliance.core.cluster.systems import (
    ClusterDescription,
    MaintenanceWindow,
    Node,
    NodeGroup,
    System,
    SystemState,
)
from appliance.core.errors import ConflictError, NotFoundError
from appliance.storage.engine.database import Database
from appliance.storage.schema.tables import (
    MaintenanceRow,
    NodeGroupRow,
    NodeRow,
    PodMemoryRow,
    SystemRow,
)


class SystemRepository:
    """All systems, nodes and node groups."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def replace(self, description: ClusterDescription) -> None:
        """Store exactly this cluster; systems that were there keep their state and notes."""
        with self._database.transaction() as rows:
            known = {row.name: row for row in rows.scalars(select(SystemRow))}
            wanted = {system.name for system in description.systems}
            for name, row in known.items():
                if name not in wanted:
                    rows.delete(row)
            for position, system in enumerate(description.systems):
                if (old := known.get(system.name)) is None:
                    rows.add(_new_system(system, position))
                    continue
                if (old.position, old.block) != (position, system.block):
                    old.position, old.block, old.version = position, system.block, old.version + 1
            for table in (NodeRow, NodeGroupRow, PodMemoryRow):
                rows.execute(delete(table))
            rows.add_all(_node(node, index) for index, node in enumerate(description.nodes))
            rows.add_all(_group(g, index) for index, g in enumerate(description.node_groups))
            rows.add_all(
                PodMemoryRow(kind=kind, memory_bytes=amount)
                for kind, amount in description.pod_memory_bytes.items()
            )

    def describe(self) -> ClusterDescription:
        """Return the whole cluster."""
        with self._database.reading() as rows:
            groups = rows.scalars(select(NodeGroupRow).order_by(NodeGroupRow.position))
            return ClusterDescription(
                systems=tuple(_systems(rows)),
                nodes=tuple(
                    Node(
                        name=row.name,
                        roles=tuple(row.roles),
                        num_cores=row.num_cores,
                        memory_bytes=row.memory_bytes,
                    )
                    for row in rows.scalars(select(NodeRow).order_by(NodeRow.position))
                ),
                node_groups=tuple(
                    NodeGroup(
                        name=row.name,
                        kind=GroupKind[row.kind],
                        is_healthy=row.is_healthy,
                        num_nodes=row.num_nodes,
                        num_cores=row.num_cores,
                        memory_bytes=row.memory_bytes,
                    )
                    for row in groups
                ),
                pod_memory_bytes={
                    row.kind: row.memory_bytes for row in rows.scalars(select(PodMemoryRow))
                },
            )

    def list(self) -> Sequence[System]:
        """Return all systems, in the cluster's order."""
        with self._database.reading() as rows:
            return _systems(rows)

    def change(self, changed: System) -> System:
        """Store a system's health, notes and state.

        Args:
            changed: The new state of the system, with the version on which the change is based.

        Returns:
            The system as it is now.

        Raises:
            NotFoundError: There is no system of that name.
            ConflictError: It was changed meanwhile.
        """
        with self._database.transaction() as rows:
            row = rows.get(SystemRow, changed.name, with_for_update=True)
            if row is None:
                raise no_system(changed.name)
            if row.version != changed.version:
                raise ConflictError(
                    f"System {changed.name} is at version {row.version}; the change rests on "
                    f"version {changed.version}.",
                    hint="Look at it again and repeat the change.",
                )
            row.is_healthy, row.notes = changed.is_healthy, changed.notes
            row.state, row.version = changed.state.value, row.version + 1
            rows.flush()
            return _system(row)

    def add_windows(self, windows: Sequence[MaintenanceWindow]) -> None:
        """Store times in which systems are away."""
        with self._database.transaction() as rows:
            rows.add_all(
                MaintenanceRow(
                    id=window.id,
                    system=window.system,
                    starts_at=window.starts_at,
                    ends_at=window.ends_at,
                    notes=window.notes,
                )
                for window in windows
            )

    def windows(self) -> Sequence[MaintenanceWindow]:
        """Return all such times, the earliest first; past ones too."""
        with self._database.reading() as rows:
            query = select(MaintenanceRow).order_by(MaintenanceRow.starts_at, MaintenanceRow.system)
            return [
                MaintenanceWindow(
                    id=row.id,
                    system=row.system,
                    starts_at=row.starts_at,
                    ends_at=row.ends_at,
                    notes=row.notes,
                )
                for row in rows.scalars(query)
            ]

    def remove_windows(self, window_id: str) -> int:
        """Forget times that were planned together.

        Returns:
            How many there were.
        """
        with self._database.transaction() as rows:
            found = rows.scalars(select(MaintenanceRow).where(MaintenanceRow.id == window_id)).all()
            for row in found:
                rows.delete(row)
            return len(found)


def no_system(name: str) -> NotFoundError:
    """Return the error that says so."""
    return NotFoundError(
        f"There is no system {name!r}.", hint="`csctl get cluster -s` lists the systems."
    )


def _systems(rows: Session) -> Sequence[System]:
    query = select(SystemRow).order_by(SystemRow.position)
    return [_system(row) for row in rows.scalars(query)]


def _system(row: SystemRow) -> System:
    return System(
        name=row.name,
        is_healthy=row.is_healthy,
        notes=row.notes,
        state=SystemState(row.state),
        block=row.block,
        version=row.version,
    )


def _new_system(system: System, position: int) -> SystemRow:
    return SystemRow(
        name=system.name,
        position=position,
        is_healthy=system.is_healthy,
        notes=system.notes,
        state=system.state.value,
        block=system.block,
        version=1,
    )


def _node(node: Node, position: int) -> NodeRow:
    return NodeRow(
        name=node.name,
        position=position,
        roles=list(node.roles),
        num_cores=node.num_cores,
        memory_bytes=node.memory_bytes,
    )


def _group(group: NodeGroup, position: int) -> NodeGroupRow:
    return NodeGroupRow(
        name=group.name,
        position=position,
        kind=group.kind.name,
        is_healthy=group.is_healthy,
        num_nodes=group.num_nodes,
        num_cores=group.num_cores,
        memory_bytes=group.memory_bytes,
    )
