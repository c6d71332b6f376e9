"""Sessions (user namespaces) and their quotas: create, change, pause, delete."""

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from appliance.core.cluster.jobs import JobType
from appliance.core.cluster.records import DEFAULT_SESSION, MAX_LABELS, JobRecord
from appliance.core.cluster.sessions import SessionRecord, SessionSpec, SessionUpdate
from appliance.core.errors import ConflictError, UserError
from appliance.core.queries.job_filter import JobFilter
from appliance.management.cluster.cluster_model import ClusterModel
from appliance.management.store.state import State
from appliance.storage.cluster.sessions import no_session
from appliance.wire.requests.submissions import check_labels

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_MAX_SHARES = 1_000_000_000
_COUNTS = ("num_systems", "borrow_limit", "max_node_groups", "max_executes", "max_compiles")
_FIELDS = tuple(field.name for field in fields(SessionSpec))


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionView:
    """A session and how busy it is.

    Attributes:
        num_running: Jobs that hold resources.
        num_queued: Jobs that wait.
        systems: Names of the systems that its jobs hold.
        node_groups: Names of the node groups that its jobs hold.
        idle_seconds: Since its last job ended; 0 while it has one, and since its creation if it
            never had one.
        history: Its changes, oldest first.
    """

    session: SessionRecord
    num_running: int
    num_queued: int
    systems: tuple[str, ...]
    node_groups: tuple[str, ...]
    idle_seconds: float
    history: tuple[SessionUpdate, ...]


class SessionService:
    """All sessions.

    Args:
        state: The appliance's database.
        model: Told of every change.
    """

    def __init__(self, state: State, model: ClusterModel) -> None:
        self._state = state
        self._model = model
        self._faults: dict[str, ConflictError] = {}

    def list(self) -> Sequence[SessionRecord]:
        """Return all sessions by name."""
        return self._model.facts.sessions

    def load(self, name: str) -> SessionRecord:
        """Return a session; raises `NotFoundError`."""
        for record in self.list():
            if record.name == name:
                return record
        raise no_session(name)

    def view(self, name: str) -> SessionView:
        """Return a session and how busy it is; raises `NotFoundError`."""
        return self._view(self.load(name), self._state.jobs.unfinished())

    def views(self) -> Sequence[SessionView]:
        """Return all sessions and how busy they are."""
        unfinished = self._state.jobs.unfinished()
        return [self._view(record, unfinished) for record in self.list()]

    def create(
        self, name: str, spec: SessionSpec, *, by: str = "", dry_run: bool = False
    ) -> SessionRecord:
        """Create a session.

        Args:
            name: Its name: 1 to 63 lower-case letters, digits and '-'.
            spec: What it may use.
            by: Who asks for it.
            dry_run: Whether to check only, and keep nothing.

        Raises:
            UserError: The name or a number is not valid, or quotas exceed what exists.
            ConflictError: There is one of that name.
        """
        if not _NAME.fullmatch(name):
            raise UserError(
                f"{name!r} is no name for a session.",
                hint="Take 1 to 63 lower-case letters, digits and '-'.",
            )
        self._check(name, spec)
        if any(record.name == name for record in self.list()):
            raise ConflictError(
                f"There is a session {name!r} already.", hint="Update it, or take another name."
            )
        if dry_run:
            now = self._state.clock.now()
            return SessionRecord(name=name, spec=spec, created_at=now, changed_at=now, version=0)
        record = self._state.sessions.create(name, spec, by=by, message=_tell(SessionSpec(), spec))
        self._model.reload()
        return record

    # `Any`: values of the fields of `SessionSpec`, which `_check` holds to their types.
    def update(
        self,
        name: str,
        changes: Mapping[str, Any],
        *,
        by: str = "",
        version: int | None = None,
        dry_run: bool = False,
    ) -> SessionRecord:
        """Change a session.

        Args:
            name: The session.
            changes: New values by name of the field of `SessionSpec`.
            by: Who asks for it.
            version: The version on which the change rests; None for the present one.
            dry_run: Whether to check only, and keep nothing.

        Raises:
            NotFoundError: There is no such session.
            UserError: A field or value is not valid, or quotas exceed what exists.
            ConflictError: It was changed meanwhile.
        """
        record = self.load(name)
        for key in changes:
            if key not in _FIELDS:
                raise UserError(
                    f"A session has no field {key!r}.", hint=f"Fields are {', '.join(_FIELDS)}."
                )
        spec = replace(record.spec, **changes)
        self._check(name, spec)
        if dry_run:
            return replace(record, spec=spec)
        changed = self._state.sessions.change(
            name,
            spec,
            version=record.version if version is None else version,
            by=by,
            message=_tell(record.spec, spec),
        )
        self._model.reload()
        return changed

    def pause(self, name: str, *, by: str = "") -> SessionRecord:
        """Let no waiting job of a session start; running ones go on. Raises `NotFoundError`."""
        return self.update(name, {"is_paused": True}, by=by)

    def unpause(self, name: str, *, by: str = "") -> SessionRecord:
        """Let a session's waiting jobs start again; raises `NotFoundError`."""
        return self.update(name, {"is_paused": False}, by=by)

    def delete(self, name: str) -> None:
        """Delete a session; its finished jobs stay in the history.

        Raises:
            NotFoundError: There is no such session.
            ConflictError: It has jobs that have not ended, or is the default session.
        """
        self.load(name)
        if name == DEFAULT_SESSION:
            raise ConflictError(
                f"Session {name!r} takes the jobs that name no session; it cannot be deleted."
            )
        if unfinished := self._state.jobs.list(JobFilter(session=name)):
            raise ConflictError(
                f"Session {name!r} has {len(unfinished)} unfinished job(s), such as "
                f"{unfinished[0].id}.",
                hint="Cancel them first, or wait.",
            )
        self._state.sessions.delete(name)
        self._model.reload()

    def refuse_jobs(self, name: str, why: ConflictError | None) -> None:
        """Let a session take no new jobs while something outside is wrong; None lets it again."""
        if why is None:
            self._faults.pop(name, None)
        else:
            self._faults[name] = why

    def session_for(self, wanted: str, user: str) -> str:
        """Return the session that a user's job goes to.

        Args:
            wanted: The session that it names; empty if it names none.
            user: Name of the user; may be empty.

        Raises:
            NotFoundError: There is no session of the name wanted.
            ConflictError: It takes no jobs now; see `refuse_jobs`.
        """
        name = self.load(wanted).name if wanted else self._default_for(user)
        if (why := self._faults.get(name)) is not None:
            raise ConflictError(why.message, hint=why.hint)
        return name

    def _default_for(self, user: str) -> str:
        mine = [record.name for record in self.list() if user and user in record.spec.members]
        return mine[0] if len(mine) == 1 else DEFAULT_SESSION

    def _view(self, record: SessionRecord, unfinished: Sequence[JobRecord]) -> SessionView:
        mine = [job for job in unfinished if job.session == record.name]
        running = [job for job in mine if job.phase.holds_resources]
        executes = [job for job in running if job.type is not JobType.COMPILE]
        now = self._state.clock.now()
        last = now if mine else self._state.jobs.last_end(record.name) or record.created_at
        return SessionView(
            session=record,
            num_running=len(running),
            num_queued=len(mine) - len(running),
            systems=tuple(name for job in executes for name in job.systems),
            node_groups=tuple(name for job in running for name in job.holding.node_groups),
            idle_seconds=max((now - last) / dt.timedelta(seconds=1), 0.0),
            history=tuple(self._state.sessions.history(record.name)),
        )

    def _check(self, name: str, spec: SessionSpec) -> None:
        for key in _COUNTS:
            value = getattr(spec, key)
            if value is not None and (not isinstance(value, int) or value < 0):
                raise UserError(
                    f"{key} of session {name!r} is {value!r}; it is 0 or more, or None."
                )
        if not 0 < spec.shares <= _MAX_SHARES:
            raise UserError(
                f"Session {name!r} would have {spec.shares:g} shares; give a number above 0 and of "
                f"at most {_MAX_SHARES:,}."
            )
        if len(spec.labels) > MAX_LABELS:
            raise UserError(
                f"Session {name!r} would have {len(spec.labels):,} labels; {MAX_LABELS} are the "
                "most.",
                hint="Leave some out.",
            )
        check_labels(spec.labels)
        facts = self._model.facts
        others = {r.name: r.spec.num_systems or 0 for r in facts.sessions if r.name != name}
        wanted, existing = spec.num_systems or 0, len(facts.systems)
        if wanted + sum(others.values()) > existing:
            raise UserError(
                f"Session {name!r} asks for {wanted} system(s) of its own; of {existing}, "
                f"{sum(others.values())} are other sessions' own.",
                hint="Lower another session's number first, or let this one borrow.",
            )


def _tell(before: SessionSpec, after: SessionSpec) -> str:
    changed = [
        f"{name}: {getattr(before, name)} -> {getattr(after, name)}"
        for name in _FIELDS
        if getattr(before, name) != getattr(after, name)
    ]
    return ", ".join(changed) or "nothing changed"
