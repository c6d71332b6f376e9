"""Which jobs a list has, in what order, and what it shows of each.

csctl, REST and management itself ask with the same filter; `storage.queue` answers it.
"""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from appliance.core.cluster.jobs import JobType, Phase
from appliance.core.cluster.records import MAX_LABELS, User
from appliance.core.errors import UserError
from appliance.core.ids import JobId
from appliance.core.queries.label_selector import LabelRequirement
from appliance.core.quick_init import quick_init


class JobOrder(StrEnum):
    """Order of a list of jobs."""

    PRIORITY = "priority"
    """By priority, newest first within equal priority; as csctl lists them."""
    REVERSED = "reversed"
    """The other way round: the lowest priority and the oldest first."""
    NEWEST = "newest"
    OLDEST = "oldest"


class JobSort(StrEnum):
    """What a list of jobs is sorted by, where a person chose a column."""

    PHASE = "phase"
    TYPE = "type"
    USER = "user"
    PRIORITY = "priority"
    SYSTEMS = "systems"
    SUBMITTED = "submitted"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPosition:
    """A position between two jobs of a list: right after the job with these values."""

    priority: int
    sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs to list; conditions combine with "and", empty ones do not count.

    Attributes:
        session: Only of this session.
        workflow: Only of this workflow.
        user: Only of the user of this name.
        uid: Only of the user of this number; None means all.
        type: Only of this kind.
        phases: Only in one of these phases; empty for all unfinished.
        with_finished: Finished jobs too; of meaning without `phases` alone.
        system: Only with this system.
        client_release: Only submitted by a client of this release, as in `2.10.0`.
        labels: Only with labels of which all of this is true.
        text: Only jobs in which each of its words occurs: in the id, the owner's name, the type,
            the phase, or a label written `key=value`; case does not count.
        created_after: Only jobs submitted then or later.
        order: Order of the list.
        sort: Sorted by this instead, newest first within equal values; `after` cannot be used.
        descending: With `sort`: from the highest value on.
        after: Where to begin; None for the beginning.
        offset: Leave out so many from there on.
        limit: At most so many; 0 means no limit.
    """

    session: str = ""
    workflow: str = ""
    user: str = ""
    uid: int | None = None
    type: JobType | None = None
    phases: tuple[Phase, ...] = ()
    with_finished: bool = False
    system: str = ""
    client_release: str = ""
    labels: tuple[LabelRequirement, ...] = ()
    text: str = ""
    created_after: dt.datetime | None = None
    order: JobOrder = JobOrder.PRIORITY
    sort: JobSort | None = None
    descending: bool = False
    after: JobPosition | None = None
    offset: int = 0
    limit: int = 0

    def __post_init__(self) -> None:
        if len(self.labels) > MAX_LABELS:
            raise UserError(
                f"The selector has {len(self.labels):,} parts; {MAX_LABELS} are the most.",
                hint="Ask for fewer.",
            )


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class JobLine:
    """A job in a list.

    Attributes:
        sequence: Order of submission.
        type: Kind of job.
        session: Namespace it belongs to.
        workflow: Workflow it belongs to.
        user: Its owner.
        priority: From 0 to 399; lower goes first.
        phase: Where it stands.
        message: Reason of the phase.
        num_systems: Systems it needs.
        systems: Systems it holds or held.
        labels: The user's tags.
        client_workdir: Where its client runs, as the client says.
        client_release: Release of its client; empty if it did not say.
        created_at: When it was submitted.
        started_at: When it got its resources.
        ended_at: When it ended.
    """

    sequence: int
    id: JobId
    type: JobType
    session: str
    workflow: str
    user: User
    priority: int
    phase: Phase
    message: str
    num_systems: int
    systems: tuple[str, ...]
    labels: Mapping[str, str]
    client_workdir: str
    client_release: str
    created_at: dt.datetime
    started_at: dt.datetime | None
    ended_at: dt.datetime | None
