"""The cluster's resources and quotas in memory, readable without the database.

Every change goes through the services of this package, which write to SQL and then call `reload`,
so the copy here always equals the committed state. Reading is cheap, from any thread.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from appliance.cluster.node_links import NodeView
from appliance.core.cluster.records import JobRecord, Reservation
from appliance.core.cluster.sessions import SessionRecord
from appliance.core.cluster.systems import ClusterDescription, MaintenanceWindow, System
from appliance.core.errors import ConflictError
from appliance.management.cluster.pod_placement import joined_nodes, missing_roles
from appliance.management.store.state import State


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """What the cluster is at a moment.

    Attributes:
        description: Systems with their states, nodes, node groups, memory of pods.
        windows: Times in which systems are away; past ones too.
        reservations: What workflows keep between their jobs.
        missing_roles: Roles that no node has, without which nothing can be started.
        may_grow: Whether nodes join by themselves.
    """

    description: ClusterDescription
    windows: tuple[MaintenanceWindow, ...]
    sessions: tuple[SessionRecord, ...]
    reservations: tuple[Reservation, ...]
    missing_roles: tuple[str, ...] = ()
    may_grow: bool = False

    @property
    def systems(self) -> tuple[System, ...]:
        """All systems, in the cluster's order."""
        return self.description.systems


class ClusterModel:
    """The committed facts; code that changes them calls `reload`.

    Args:
        state: The appliance's database.
        joined: Returns the nodes that have joined; None where all is one machine.
    """

    def __init__(
        self, state: State, joined: Callable[[], Sequence[NodeView]] | None = None
    ) -> None:
        self._state, self._joined = state, joined
        self._lock = threading.Lock()
        self._listeners: list[Callable[[], None]] = []
        self._facts = self._read()

    @property
    def facts(self) -> ClusterFacts:
        """What the cluster is now."""
        return self._facts

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call a listener after each change, in the thread that made it."""
        self._listeners.append(listener)

    def reload(self) -> None:
        """Read a change that is already committed."""
        with self._lock:
            self._facts = self._read()
        for listener in self._listeners:
            listener()

    def reload_reservations(self) -> None:
        """Read a committed change of workflows' reservations, without notifying listeners."""
        with self._lock:
            kept = tuple(self._state.workflows.reservations())
            self._facts = replace(self._facts, reservations=kept)

    def apply(self, description: ClusterDescription) -> ClusterDescription:
        """Make the cluster what a description says; systems that stay keep their state.

        Raises:
            ConflictError: A job holds a system that would be gone.
        """
        wanted = {system.name for system in description.systems}
        for job in self._holders():
            for name in (*job.systems, *job.holding.reserved_systems):
                if name not in wanted:
                    raise ConflictError(
                        f"System {name} cannot be removed: job {job.id} runs on it.",
                        hint="Drain the system, or cancel the job, and try again.",
                    )
        self._state.systems.replace(description)
        self.reload()
        return self.facts.description

    def _holders(self) -> Sequence[JobRecord]:
        return [job for job in self._state.jobs.unfinished() if job.phase.holds_resources]

    def _read(self) -> ClusterFacts:
        description = self._state.systems.describe()
        missing: tuple[str, ...] = ()
        if self._joined is not None:
            views = self._joined()
            nodes = joined_nodes(description.nodes, views)
            description, missing = replace(description, nodes=nodes), missing_roles(views)
        return ClusterFacts(
            description=description,
            missing_roles=missing,
            may_grow=self._joined is not None,
            windows=tuple(self._state.systems.windows()),
            sessions=tuple(self._state.sessions.list()),
            reservations=tuple(self._state.workflows.reservations()),
        )
