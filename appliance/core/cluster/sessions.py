"""Sessions: user namespaces, and what each may use."""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSpec:
    """What an administrator decides about a session.

    Attributes:
        num_systems: Systems that are its own; None gives it no quota and no limit.
        borrow_limit: How many more it may use while nobody else does; None sets no limit.
        max_node_groups: MemoryX node groups at a time; None sets no limit.
        max_executes: Execute jobs at a time; None sets no limit.
        max_compiles: Compile jobs at a time; None sets no limit.
        shares: Its part of the cluster under fair share, against other sessions.
        is_paused: Whether its pending jobs stay pending.
        members: Names of users whose jobs go there unless they name another session.
        properties: What else is known of it.
        labels: Tags.
    """

    num_systems: int | None = None
    borrow_limit: int | None = None
    max_node_groups: int | None = None
    max_executes: int | None = None
    max_compiles: int | None = None
    shares: float = 1.0
    is_paused: bool = False
    members: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def max_systems(self) -> int | None:
        """Systems it may use at a time, borrowed ones too; None sets no limit."""
        if self.num_systems is None or self.borrow_limit is None:
            return None
        return self.num_systems + self.borrow_limit


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRecord:
    """A session as stored.

    Attributes:
        spec: What it may use.
        created_at: When it was created.
        changed_at: When it was last changed.
        version: Grows with each change, so that a change on stale knowledge is refused.
    """

    name: str
    spec: SessionSpec
    created_at: dt.datetime
    changed_at: dt.datetime
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionUpdate:
    """A change of a session, as its history shows it.

    Attributes:
        at: When.
        by: Who asked for it; may be empty.
        message: What changed.
    """

    session: str
    at: dt.datetime
    by: str
    message: str
