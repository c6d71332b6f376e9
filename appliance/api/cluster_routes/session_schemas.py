"""Schemas of sessions in REST's answers."""

import datetime as dt
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from appliance.core.cluster.sessions import SessionSpec, SessionUpdate
from appliance.management.cluster.session_service import SessionView

Count = Annotated[int, Field(ge=0, le=1_000_000)]
Text = Annotated[str, Field(max_length=256)]


class SessionSpecView(BaseModel):
    """What a session may use."""

    model_config = ConfigDict(extra="forbid")

    num_systems: Count | None = None
    """Systems that are its own; null gives it no quota and no limit."""
    borrow_limit: Count | None = None
    """How many more it may use while nobody else does; null sets no limit."""
    max_node_groups: Count | None = None
    max_executes: Count | None = None
    max_compiles: Count | None = None
    shares: Annotated[float, Field(gt=0, le=1e9)] = 1.0
    """Its part of the cluster under fair share, against other sessions."""
    is_paused: bool = False
    """Whether its waiting jobs stay waiting."""
    members: Annotated[list[Text], Field(max_length=10_000)] = []
    """Users whose jobs go there unless they name another session."""
    properties: dict[Text, Text] = {}
    labels: dict[Text, Text] = {}

    @classmethod
    def of(cls, spec: SessionSpec) -> "SessionSpecView":
        """Return what a session may use."""
        return cls(
            num_systems=spec.num_systems,
            borrow_limit=spec.borrow_limit,
            max_node_groups=spec.max_node_groups,
            max_executes=spec.max_executes,
            max_compiles=spec.max_compiles,
            shares=spec.shares,
            is_paused=spec.is_paused,
            members=list(spec.members),
            properties=dict(spec.properties),
            labels=dict(spec.labels),
        )

    def to_spec(self) -> SessionSpec:
        """Return it as management knows it."""
        return SessionSpec(**{**self.model_dump(), "members": tuple(self.members)})


class NewSession(SessionSpecView):
    """A session to create."""

    name: Annotated[str, Field(max_length=63)]


class SessionChange(BaseModel):
    """What to change of a session; what is left out stays."""

    model_config = ConfigDict(extra="forbid")

    num_systems: Count | None = None
    borrow_limit: Count | None = None
    max_node_groups: Count | None = None
    max_executes: Count | None = None
    max_compiles: Count | None = None
    shares: Annotated[float, Field(gt=0, le=1e9)] = 1.0
    is_paused: bool = False
    members: Annotated[list[Text], Field(max_length=10_000)] = []
    properties: dict[Text, Text] = {}
    labels: dict[Text, Text] = {}

    def changes(self) -> dict[str, object]:
        """Return the fields that were given, by name."""
        given = self.model_dump(exclude_unset=True)
        if "members" in given:
            given["members"] = tuple(given["members"])
        return given


class HistoryEntry(BaseModel):
    """A change of a session."""

    at: dt.datetime
    by: str
    message: str

    @classmethod
    def of(cls, update: SessionUpdate) -> "HistoryEntry":
        """Return a change of a session."""
        return cls(at=update.at, by=update.by, message=update.message)


class Session(BaseModel):
    """A session and how busy it is."""

    name: str
    spec: SessionSpecView
    created_at: dt.datetime
    changed_at: dt.datetime
    version: int
    """Grows with each change, as in the ETag."""
    num_running: int
    num_queued: int
    systems: list[str]
    """Systems that its jobs hold."""
    node_groups: list[str]
    idle_seconds: float
    history: list[HistoryEntry]

    @classmethod
    def of(cls, view: SessionView) -> "Session":
        """Return a session and how busy it is."""
        record = view.session
        return cls(
            name=record.name,
            spec=SessionSpecView.of(record.spec),
            created_at=record.created_at,
            changed_at=record.changed_at,
            version=record.version,
            num_running=view.num_running,
            num_queued=view.num_queued,
            systems=list(view.systems),
            node_groups=list(view.node_groups),
            idle_seconds=view.idle_seconds,
            history=[HistoryEntry.of(update) for update in view.history],
        )


class SessionList(BaseModel):
    """All sessions, by name."""

    items: list[Session]
