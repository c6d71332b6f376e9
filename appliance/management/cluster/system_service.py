"""Administration of systems for csctl and REST: health, drain, maintenance."""

import datetime as dt
import secrets
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

from appliance.core.clock import Clock
from appliance.core.cluster.systems import (
    ClusterDescription,
    MaintenanceWindow,
    System,
    SystemEvent,
    SystemEventKind,
    SystemState,
)
from appliance.core.errors import ConflictError, NotFoundError, UserError
from appliance.core.queries.system_event_filter import SystemEventFilter
from appliance.management.cluster.cluster_model import ClusterModel
from appliance.management.store.state import State
from appliance.storage.cluster.systems import no_system

_MAX_SECONDS = 31_536_000.0
"""Longest maintenance that can be planned: a year."""


class SystemService:
    """The systems of the cluster, and what the whole of it is.

    Args:
        state: The appliance's database.
        model: Told of every change.
    """

    def __init__(self, state: State, model: ClusterModel) -> None:
        self._state = state
        self._model = model
        self._clock: Clock = state.clock
        self._applying = threading.Lock()

    def now(self) -> dt.datetime:
        """Return the time by which changes are dated."""
        return self._clock.now()

    def list(self) -> Sequence[System]:
        """Return all systems, in the cluster's order."""
        return self._model.facts.systems

    def load(self, name: str) -> System:
        """Return a system; raises `NotFoundError`."""
        for system in self.list():
            if system.name == name:
                return system
        raise no_system(name)

    def set_state(
        self,
        name: str,
        state: SystemState,
        *,
        notes: str = "",
        version: int | None = None,
        by: str = "",
    ) -> System:
        """Put a system up, drain it, or take it away for maintenance. Running jobs go on.

        Args:
            name: The system.
            state: What it shall be.
            notes: Why, for people; kept until the next change.
            version: The version on which the change rests; None for the present one.
            by: Who does it.

        Raises:
            NotFoundError: There is no such system.
            ConflictError: It was changed meanwhile.
        """
        system = self._at_version(name, version)
        return self._change(replace(system, state=state, notes=notes), state.value, by=by)

    def set_health(
        self,
        name: str,
        *,
        is_healthy: bool,
        notes: str = "",
        version: int | None = None,
        by: str = "",
        port: str = "",
    ) -> System:
        """Mark a system healthy or not; an unhealthy one gets no new job.

        Args:
            name: The system.
            is_healthy: Whether it is.
            notes: Why, for people; kept until the next change.
            version: The version on which the change rests; None for the present one.
            by: Who says so.
            port: The port that it is about; empty for none.

        Raises:
            NotFoundError: There is no such system.
            ConflictError: It was changed meanwhile.
        """
        system = self._at_version(name, version)
        health = "healthy" if is_healthy else "unhealthy"
        changed = replace(system, is_healthy=is_healthy, notes=notes)
        return self._change(changed, health, by=by, port=port)

    def report(self, event: SystemEvent) -> None:
        """Store an event of a system; raises `NotFoundError`."""
        self.load(event.system)
        self._state.system_events.add(event)

    def events(self, wanted: SystemEventFilter) -> Sequence[SystemEvent]:
        """Return what happened to systems, oldest first."""
        return self._state.system_events.list(wanted)

    def plan_maintenance(
        self,
        names: Sequence[str],
        *,
        starts_at: dt.datetime | None,
        seconds: float,
        notes: str = "",
        dry_run: bool = False,
    ) -> Sequence[MaintenanceWindow]:
        """Plan a time in which systems are away; jobs that may run into it go elsewhere.

        Args:
            names: The systems.
            starts_at: Begin; None for now.
            seconds: How long.
            notes: What is done, for people.
            dry_run: Whether to check only, and keep nothing.

        Raises:
            NotFoundError: There is no system of one of the names.
            UserError: It names no system, or the time is empty or over.
            ConflictError: A system is away at that time already.
        """
        if not names or len(set(names)) != len(names):
            raise UserError("Maintenance names at least one system, and each of them once.")
        for name in names:
            self.load(name)
        now = self._clock.now()
        start = starts_at or now
        if not seconds <= _MAX_SECONDS or start.year >= dt.MAXYEAR:
            raise UserError(
                f"Maintenance from {start.isoformat()} for {seconds:g} seconds is too long; "
                f"{_MAX_SECONDS:g} seconds are the most, before the year {dt.MAXYEAR}."
            )
        end = start + dt.timedelta(seconds=seconds)
        if seconds <= 0 or end <= now:
            raise UserError(
                f"Maintenance from {start.isoformat()} for {seconds:g} seconds is over already, or "
                "is no time at all."
            )
        for window in self.windows():
            if window.system in names and window.starts_at < end and start < window.ends_at:
                raise ConflictError(
                    f"System {window.system} has maintenance {window.id} from "
                    f"{window.starts_at.isoformat()} to {window.ends_at.isoformat()} already.",
                    hint="End that one first, or choose another time.",
                )
        plan_id = f"maintenance-{secrets.token_hex(6)}"
        windows = [
            MaintenanceWindow(id=plan_id, system=name, starts_at=start, ends_at=end, notes=notes)
            for name in names
        ]
        if not dry_run:
            self._state.systems.add_windows(windows)
            self._model.reload()
        return windows

    def windows(self, *, with_past: bool = False) -> Sequence[MaintenanceWindow]:
        """Return planned and running maintenance, the earliest first."""
        now = self._clock.now()
        return [w for w in self._model.facts.windows if with_past or w.ends_at > now]

    def end_maintenance(self, plan_id: str) -> int:
        """Give systems back before the planned end, or call their maintenance off.

        Returns:
            How many systems it was about.

        Raises:
            NotFoundError: There is no such maintenance.
        """
        count = self._state.systems.remove_windows(plan_id)
        if not count:
            raise NotFoundError(f"There is no maintenance {plan_id!r}.")
        self._model.reload()
        return count

    def describe(self) -> ClusterDescription:
        """Return the whole cluster: systems, nodes, node groups, memory of pods."""
        return self._model.facts.description

    def apply(
        self,
        description: ClusterDescription,
        *,
        check: Callable[[ClusterDescription], None] = lambda _: None,
    ) -> ClusterDescription:
        """Make the cluster what a description says (see `cluster_file`), while it runs.

        Args:
            description: The cluster as it shall be.
            check: Raises if the cluster, as it is now, must not be changed.

        Raises:
            ConflictError: A job holds a system that would be gone.
        """
        with self._applying:
            check(self.describe())
            return self._model.apply(description)

    def _at_version(self, name: str, version: int | None) -> System:
        system = self.load(name)
        return system if version is None else replace(system, version=version)

    def _change(self, system: System, state: str, *, by: str, port: str = "") -> System:
        with self._state.database.batch():
            changed = self._state.systems.change(system)
            self._state.system_events.add(
                SystemEvent(
                    system=system.name,
                    at=self._clock.now(),
                    kind=SystemEventKind.STATE_CHANGE,
                    note=system.notes,
                    details={"state": state, "port": port, "caller": by},
                )
            )
        self._model.reload()
        return changed
