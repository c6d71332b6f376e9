"""The scheduler's only input beside the queue: the cluster at one moment.

A field left at its default disables the feature that needs it: without sessions there are no
quotas, without a ledger no past use.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

from appliance.core.cluster.jobs import JobType
from appliance.core.cluster.records import DEFAULT_PRIORITY, NO_HOLDING, Holding, PodPlacement
from appliance.core.cluster.run import Aftermath, CompletedSessions, RunProgress
from appliance.core.cluster.systems import Node, NodeGroup, System
from appliance.core.ids import JobId, WorkflowId
from appliance.core.quick_init import quick_init
from appliance.scheduler.fair_share import NOBODY, Account, UsageLedger
from appliance.scheduler.policy import Policy
from appliance.scheduler.run_time import Basis, Estimate

_OVERRUN_SHARE = 0.25
_OVERRUN_SECONDS = 60.0
_MIN_REST_SECONDS = 1.0


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What a job holds, from its admission until its last pod is gone.

    Attributes:
        systems: Names of its systems; empty for a compile job.
        holding: What it holds beyond them.
        priority: Its priority value.
        account: Whom its use is charged to.
        program: What it runs; empty when that is not known.
        started_seconds: When it was admitted; None when that is not known.
        estimate: How long it will run; None when that is not known.
        progress: How far its steps are; None when that is not known.
        completed: The sessions that it has completed; None before the first is.
        has_time_limit: Whether it is ended when its bound is reached.
        is_preemptible: Whether it can go on from a checkpoint after it was stopped.
        is_ending: Whether it is being stopped already.
    """

    job: JobId
    type: JobType
    systems: tuple[str, ...] = ()
    holding: Holding = NO_HOLDING
    priority: int = DEFAULT_PRIORITY
    account: Account = NOBODY
    workflow: WorkflowId | None = None
    program: str = ""
    started_seconds: float | None = None
    estimate: Estimate | None = None
    progress: RunProgress | None = None
    completed: CompletedSessions | None = None
    has_time_limit: bool = False
    is_preemptible: bool = False
    is_ending: bool = False

    @property
    def node_groups(self) -> tuple[str, ...]:
        """Names of its node groups."""
        return self.holding.node_groups

    @property
    def pods(self) -> tuple[PodPlacement, ...]:
        """Where its pods are, as far as they count against nodes."""
        return self.holding.pods

    @property
    def reserved_systems(self) -> tuple[str, ...]:
        """Systems that it holds for later jobs of its workflow."""
        return self.holding.reserved_systems

    @property
    def is_lookup(self) -> bool:
        """Whether it is a compile job that has only looked into the compile cache so far.

        It holds nothing then, and counts for no limit.
        """
        return self.holding.is_lookup

    @property
    def num_systems(self) -> int:
        """Systems it holds, reserved ones too."""
        return len(self.systems) + len(self.reserved_systems)

    @property
    def has_steps(self) -> bool:
        """Whether it is known when the steps of its present session will be complete."""
        return self.progress is not None and self.progress.end_seconds is not None

    @property
    def last_step_seconds(self) -> float | None:
        """The end of the steps of its present session, else of its last; None: not known."""
        if self.progress is not None and (end := self.progress.end_seconds) is not None:
            return end
        return None if self.completed is None else self.completed.last_end_seconds


def _rest(grant: Grant, aftermath: Aftermath) -> float:
    """Return how long a job goes on after the last step that its end is counted from."""
    if grant.has_steps and grant.progress is not None:
        return aftermath.after(grant.progress.session)
    if grant.completed is None:
        return aftermath.tail_seconds
    is_foreseen = grant.completed.count < len(aftermath.rests_seconds)
    if grant.progress is None or is_foreseen:
        return aftermath.after(grant.completed.count)
    return grant.completed.longest_seconds + aftermath.tail_seconds  # it has begun another


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowReservation:
    """Systems that a workflow keeps between its jobs.

    Attributes:
        systems: All systems it keeps, also those that a job of it uses now.
        node_groups: All node groups it keeps.
        account: Whose workflow it is.
        until_seconds: When it is expected to be given up; None when that is not known.
    """

    workflow: WorkflowId
    systems: tuple[str, ...]
    node_groups: tuple[str, ...] = ()
    account: Account = NOBODY
    until_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintenance:
    """A time in which nothing may run on a system.

    Attributes:
        start_seconds: Begin; jobs that may run longer are not placed on it before.
        end_seconds: End, as planned.
    """

    system: str
    start_seconds: float
    end_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionQuota:
    """What a session may use.

    Attributes:
        name: The session.
        num_systems: Systems that are its own; None gives it no quota and no limit.
        borrow_limit: How many more it may use while nobody else does; None sets no limit.
        max_node_groups: MemoryX node groups at a time; None sets no limit.
        max_executes: Execute jobs at a time; None sets no limit.
        max_compiles: Compile jobs at a time; None sets no limit.
        shares: Its part of the cluster under fair share, against other sessions.
        is_paused: Whether its pending jobs stay pending.
    """

    name: str
    num_systems: int | None = None
    borrow_limit: int | None = None
    max_node_groups: int | None = None
    max_executes: int | None = None
    max_compiles: int | None = None
    shares: float = 1.0
    is_paused: bool = False

    @property
    def max_systems(self) -> int | None:
        """Systems it may use at a time, borrowed ones too; None sets no limit."""
        if self.num_systems is None or self.borrow_limit is None:
            return None
        return self.num_systems + self.borrow_limit

    def max_jobs(self, job_type: JobType) -> int | None:
        """Return how many jobs of a type it may run at a time; None sets no limit."""
        match job_type:
            case JobType.COMPILE | JobType.SDK_COMPILE:
                return self.max_compiles
            case JobType.EXECUTE | JobType.SDK_EXECUTE:
                return self.max_executes
            case JobType.DRIVER:
                return None
            case _:
                assert_never(job_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSnapshot:
    """The cluster, who holds what, and by which rules it is shared.

    Attributes:
        systems: All systems, in the order in which they are granted.
        nodes: All CPU nodes.
        node_groups: All MemoryX node groups.
        grants: One for each job that holds resources.
        reservations: What workflows keep between their jobs.
        now_seconds: The time, on the scale of every other time here; times of day do.
        draining: Systems that get no new job.
        maintenance: Times in which systems are away.
        blocks: For each system, what it shares the shortest way with, such as a leaf switch; jobs
            are kept within one where that is possible. Empty knows no topology.
        sessions: Quotas; a session not named has none.
        usage: Past use; None means that nobody used anything.
        policy: The rules.
        may_grow: Whether nodes join by themselves, so that a job which no node is large enough for
            waits instead of being refused.
        stopped: Why no job may start, whatever is free; empty if jobs may.
    """

    systems: tuple[System, ...]
    nodes: tuple[Node, ...] = ()
    node_groups: tuple[NodeGroup, ...] = ()
    grants: tuple[Grant, ...] = ()
    reservations: tuple[WorkflowReservation, ...] = ()
    now_seconds: float = 0.0
    draining: frozenset[str] = frozenset()
    maintenance: tuple[Maintenance, ...] = ()
    blocks: Mapping[str, str] = field(default_factory=dict)
    sessions: tuple[SessionQuota, ...] = ()
    usage: UsageLedger | None = None
    policy: Policy = field(default_factory=Policy)
    may_grow: bool = False
    stopped: str = ""

    def free_systems(self) -> tuple[System, ...]:
        """Return the systems that a job could get now."""
        taken = set(self.draining)
        for grant in self.grants:
            taken.update(grant.systems, grant.reserved_systems)
        for reservation in self.reservations:
            taken.update(reservation.systems)
        return tuple(s for s in self.systems if s.is_healthy and s.name not in taken)

    def without(self, job: JobId) -> "ClusterSnapshot":
        """Return the snapshot after a job gave back what it held."""
        return replace(self, grants=tuple(g for g in self.grants if g.job != job))

    def ends(self) -> Iterator[tuple[float, Grant]]:
        """Yield each grant with the time by which it ends, as far as is known."""
        for grant in self.grants:
            yield self.end_bound(grant), grant

    def end_bound(self, grant: Grant) -> float:
        """Return when a grant ends at the latest, as far as is known."""
        seconds = None if grant.estimate is None else grant.estimate.bound_seconds
        return self._end(grant, seconds)

    def end_expected(self, grant: Grant) -> float:
        """Return when a grant most likely ends."""
        return self.expected_end(grant)[0]

    def expected_end(self, grant: Grant) -> tuple[float, Basis]:
        """Return when a grant most likely ends, and what that rests on.

        The first of these that is known: its own steps, the sessions it has completed, how long
        its program took before, how long the user's other jobs took, its limit, the default. To
        steps and sessions is added how long such jobs go on after them. A limit always ends it.
        """
        estimate, bound = self.estimate_of(grant), self.end_bound(grant)
        if grant.is_ending:
            return self.now_seconds, estimate.basis
        if (last_step := grant.last_step_seconds) is None:
            return min(self._end(grant, estimate.expected_seconds), bound), estimate.basis
        end = last_step + _rest(grant, estimate.aftermath)
        if end <= self.now_seconds:  # it is late: again as long as it was waited for
            end = self.now_seconds + max(self.now_seconds - last_step, _MIN_REST_SECONDS)
        if grant.has_time_limit and bound < end:
            return bound, Basis.LIMIT
        return end, Basis.STEPS if grant.has_steps else Basis.SESSIONS

    def estimate_of(self, grant: Grant) -> Estimate:
        """Return a grant's own estimate, else the default for its type."""
        if grant.estimate is not None:
            return grant.estimate
        seconds = self.policy.default_execute_seconds
        if grant.type.queue_type is JobType.COMPILE:
            seconds = self.policy.default_compile_seconds
        return Estimate(expected_seconds=seconds, bound_seconds=seconds, basis=Basis.DEFAULT)

    def _end(self, grant: Grant, seconds: float | None) -> float:
        """Return start plus seconds; a job that is over its time is given a quarter more."""
        now = self.now_seconds
        if grant.is_ending:
            return now
        if seconds is None:
            seconds = self.estimate_of(grant).bound_seconds
        if grant.started_seconds is None:
            return now + seconds
        end = grant.started_seconds + seconds
        if end > now:
            return end
        elapsed = now - grant.started_seconds
        return now + (0.0 if grant.has_time_limit else _OVERRUN_SECONDS + _OVERRUN_SHARE * elapsed)
