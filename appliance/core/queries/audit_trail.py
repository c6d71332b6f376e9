"""Records of changes, and which of them a list has."""

import datetime as dt
from dataclasses import dataclass

from appliance.core.quick_init import quick_init

SOMEBODY = "somebody with write access"
"""Who changed an object of Kubernetes, which does not say who it was."""
NO_UID = -1


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """A change that somebody made or was refused.

    Attributes:
        id: Growing number; 0 before it is kept.
        at: When.
        user: Name of who asked, or `SOMEBODY`.
        uid: Their numeric id; `NO_UID` if it is not known.
        entry_point: `grpc`, `rest`, `shell` or `kubernetes`.
        action: What was asked for.
        kind: Kind of the object.
        name: Name of the object.
        detail: What exactly, as in a method or the new value.
        problem: Why it was not done; empty if it was.
    """

    at: dt.datetime
    user: str
    uid: int
    entry_point: str
    action: str
    kind: str
    name: str
    detail: str = ""
    problem: str = ""
    id: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Which audit records to list, newest first.

    Attributes:
        user: Only of this user; empty for all.
        name: Only about the object of this name; empty for all.
        before: Only records with a smaller id; 0 for no bound.
        limit: At most so many.
    """

    user: str = ""
    name: str = ""
    before: int = 0
    limit: int = 100
