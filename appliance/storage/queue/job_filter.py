"""Which jobs a list is of."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs to list; conditions combine with "and".

    Attributes:
        session: Only of this session; empty means all.
        workflow: Only of this workflow; empty means all.
        uid: Only of this user; None means all.
        labels: Only with all of these labels.
        with_finished: Finished jobs too.
        limit: At most so many, newest first within a priority; 0 means no limit.
    """

    session: str = ""
    workflow: str = ""
    uid: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    with_finished: bool = False
    limit: int = 0
