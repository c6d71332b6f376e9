"""Whether a job may start: gangs are admitted whole, and never delay a promised start.

`CycleState` is the working state of one cycle: free resources, promises, and the jobs not yet
decided. It exists for one call of `cycle.run_cycle` and is the only mutable value there.
"""

from bisect import insort
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from appliance.core.cluster.jobs import JobType
from appliance.core.cluster.records import Holding
from appliance.core.cluster.requirements import PodDemand
from appliance.core.errors import UnschedulableError
from appliance.core.ids import JobId
from appliance.core.quick_init import quick_init
from appliance.scheduler.demand import GROUPS, Demand, NodeRoom
from appliance.scheduler.order import order_keys
from appliance.scheduler.placement import Capacity, Frame, Placement, place
from appliance.scheduler.queue import QUEUE_TYPES, JobQueue, PendingJob
from appliance.scheduler.quota import Rooms, bytes_of
from appliance.scheduler.snapshot import ClusterSnapshot, Grant, SessionQuota

_GIB = 2**30
_LOOKUP = Holding(is_lookup=True)
_DRIVER_QUEUE = QUEUE_TYPES.index(JobType.DRIVER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Admit:
    """The job starts with this grant."""

    job: JobId
    grant: Grant


@dataclass(frozen=True, slots=True, kw_only=True)
class Reject:
    """The job can never start."""

    job: JobId
    error: UnschedulableError


@dataclass(frozen=True, slots=True, kw_only=True)
class Preempt:
    """Stop a running job and requeue it; it later continues from its last checkpoint.

    Attributes:
        job: The job that stops.
        beneficiary: The job that gets what it held.
        reason: Why, for people.
    """

    job: JobId
    beneficiary: JobId
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """A start that a blocked job can count on: nobody behind it may delay it.

    Attributes:
        start_seconds: When what it needs is free, if nobody overruns their bound.
        placement: What it would get.
        spare: What is free at that time beside the promise; it shrinks as jobs that last longer
            are admitted.
        last: The grant whose end is the last that is waited for; None when it is not a grant.
    """

    job: PendingJob
    start_seconds: float
    placement: Placement
    spare: Capacity
    last: Grant | None


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The latest known time at which something is released; ordered by time, then by job.

    Attributes:
        at_seconds: The time, on the snapshot's scale.
        job: What ends then: a job, or a workflow that retains something.
        held: What becomes free.
        grant: Of the job; None if it is not a job.
        is_open: Whether nobody knows the time: a workflow retains what it has as long as its client
            likes. `at_seconds` then serves to plan by, and nobody is told of it.
    """

    at_seconds: float
    job: str
    held: Placement
    grant: Grant | None
    is_open: bool = False

    def __lt__(self, other: "Ending") -> bool:
        return (self.at_seconds, self.job) < (other.at_seconds, other.job)


class CycleState:
    """The working state of one cycle.

    Args:
        queue: The jobs that wait; it is not changed.
    """

    def __init__(self, snapshot: ClusterSnapshot, queue: JobQueue) -> None:
        self.snapshot = snapshot
        self.queue = queue
        self.frame = Frame(snapshot)
        self.free = Capacity(self.frame)
        self.endings: list[Ending] = []
        for end, grant in snapshot.ends():
            held = self.frame.held(grant)
            self.free.take(held)
            self.endings.append(Ending(at_seconds=end, job=grant.job, held=held, grant=grant))
        self._idle = self._take_reservations()
        self.endings.sort()
        self.rooms = Rooms(snapshot)
        self.key = order_keys(snapshot, queue, self.rooms)
        self.is_open: NDArray[np.bool_] = np.ones(len(queue), np.bool_)
        self.may_start = self.rooms.open_slots(queue)
        self.can_ever = fitting_slots(queue, self._reachable())
        self.promises: list[Promise] = []
        self.decisions: list[Admit | Reject | Preempt] = []
        self.stuck: dict[JobId, None] = {}

    def _take_reservations(self) -> dict[str, Placement]:
        """Take the resources that workflows reserve, and return them by workflow."""
        idle: dict[str, Placement] = {}
        for reservation in self.snapshot.reservations:
            kept = self.frame.reserved(reservation)
            mine = Placement(
                systems=kept.systems & self.free.systems, groups=kept.groups & self.free.groups
            )
            self.free.take(mine)
            idle[reservation.workflow] = mine
            end = reservation.until_seconds
            if end is None:
                end = self.snapshot.now_seconds + self.snapshot.policy.default_execute_seconds
            self.endings.append(
                Ending(
                    at_seconds=max(end, self.snapshot.now_seconds),
                    job=reservation.workflow,
                    held=mine,
                    grant=None,
                    is_open=reservation.until_seconds is None,
                )
            )
        return idle

    def _reachable(self) -> NDArray[np.int64]:
        """Return what would be free if every running job had ended."""
        everything = self.free.copy()
        for ending in self.endings:
            everything.give(ending.held)
        return everything.columns()

    def end_of(self, slot: int) -> float:
        """Return by when the job in a slot would end if it started now."""
        return float(self.snapshot.now_seconds + self.queue.columns.bound[slot])

    def known_end_of(self, slot: int) -> float:
        """Return the same, but infinity if the bound is only a guess."""
        return float(self.snapshot.now_seconds + self.queue.columns.known_bound[slot])

    def close(self, slot: int) -> None:
        """Exclude a job from the rest of the cycle."""
        self.is_open[slot] = False

    def try_admit(self, slot: int) -> bool:
        """Admit a job if it fits now and delays no promised start."""
        if self.queue.demands[slot].num_systems > self.free.systems.bit_count():
            return False  # most of those asked fail here; the rest is dearer
        job = self.queue.jobs[slot]
        known_end = self.known_end_of(slot)
        capacity = self.free
        for promise in self.promises:
            if known_end > promise.start_seconds:
                capacity = capacity.meet(promise.spare)
        placement = self._place(self.queue.demands[slot], capacity, self.end_of(slot))
        if placement is None or not self.rooms.admits(job):
            return False
        self.admit(slot, placement)
        return True

    def try_admit_reserved(self, slot: int) -> bool:
        """Admit a job on its workflow's reservation, completed from free resources."""
        job = self.queue.jobs[slot]
        mine = self._idle[job.workflow] if job.workflow else Placement()
        capacity = self.free.copy()
        for promise in self.promises:
            capacity = capacity.meet(promise.spare)
        capacity.systems |= mine.systems
        capacity.groups |= mine.groups
        placement = self._place(self.queue.demands[slot], capacity, self.end_of(slot), mine.systems)
        if placement is None:
            return False
        used = mine.systems & placement.systems
        used_groups = mine.groups & placement.groups
        held = {
            "already_held": used.bit_count(),
            "groups_already_held": used_groups.bit_count(),
        }
        if not self.rooms.admits(job, **held):
            return False
        if job.workflow:
            self._idle[job.workflow] = Placement(
                systems=mine.systems & ~placement.systems, groups=mine.groups & ~placement.groups
            )
        self.admit(slot, placement, **held)
        return True

    def _place(
        self, demand: Demand, capacity: Capacity, end: float, preferred: int = 0
    ) -> Placement | None:
        return place(
            demand,
            capacity,
            start_seconds=self.snapshot.now_seconds,
            end_seconds=end,
            preferred=preferred,
        )

    def admit(
        self,
        slot: int,
        placement: Placement,
        *,
        already_held: int = 0,
        groups_already_held: int = 0,
    ) -> None:
        """Admit a job with a placement."""
        job = self.queue.jobs[slot]
        grant = self._grant(job, placement)
        known_end = self.known_end_of(slot)
        self.free.take(placement)
        for promise in self.promises:
            if known_end > promise.start_seconds:
                promise.spare.take(placement)
        ending = Ending(at_seconds=self.end_of(slot), job=job.id, held=placement, grant=grant)
        insort(self.endings, ending)
        self.close(slot)
        self.decisions.append(Admit(job=job.id, grant=grant))
        if job.type is JobType.DRIVER:
            self.rooms.charge_driver(job)
        if self.rooms.quotas:
            needed = job.num_systems + job.reserve_systems - already_held
            self.rooms.charge(
                job.session, job.type, needed, job.num_node_groups - groups_already_held
            )

    def admit_lookup(self, slot: int) -> None:
        """Start a compile job at once for its cache lookup, which takes no resources."""
        job = self.queue.jobs[slot]
        self.close(slot)
        grant = replace(self._grant(job, Placement()), holding=_LOOKUP)
        self.decisions.append(Admit(job=job.id, grant=grant))

    def reject(self, slot: int, error: UnschedulableError) -> None:
        """Refuse a job for good."""
        self.close(slot)
        self.decisions.append(Reject(job=self.queue.jobs[slot].id, error=error))

    def _grant(self, job: PendingJob, placement: Placement) -> Grant:
        names = self.frame.systems_of(placement.systems)
        return Grant(
            job=job.id,
            type=job.type,
            systems=names[: job.num_systems],
            holding=Holding(
                node_groups=self.frame.groups_of(placement.groups),
                pods=self.frame.pods_of(placement),
                reserved_systems=names[job.num_systems :],
            ),
            priority=job.priority,
            account=job.account,
            workflow=job.workflow,
            program=job.program,
            started_seconds=self.snapshot.now_seconds,
            estimate=self.queue.estimate_of(job),
            has_time_limit=job.limit_seconds is not None,
            is_preemptible=job.is_preemptible,
        )


def fitting_slots(queue: JobQueue, supply: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return for each slot whether its demand is within a supply, number by number."""
    size = len(queue)
    fits = np.ones(size, np.bool_)
    demand = queue.columns.demand
    for column in queue.used_columns:
        fits &= demand[column, :size] <= supply[column]
    return fits


def sift(cycle: CycleState) -> None:
    """Decide what depends on no other job: infeasible requests, cache lookups, reservations."""
    queue = cycle.queue
    key = cycle.key
    everything = Capacity(cycle.frame)
    everything.systems = (1 << len(cycle.snapshot.systems)) - 1
    everything.groups = (1 << len(cycle.snapshot.node_groups)) - 1
    hopeless = ~fitting_slots(queue, everything.columns())
    if cycle.rooms.quotas:
        hopeless |= _beyond_quota(cycle)
    for slot in np.flatnonzero(queue.columns.queue_type[: len(queue)] == _DRIVER_QUEUE).tolist():
        hopeless[slot] |= bytes_of(queue.jobs[slot]) > cycle.rooms.driver_bytes_most > 0
    slots = np.flatnonzero(hopeless & cycle.is_open)
    for slot in slots[key[slots].argsort()].tolist():
        try:
            check_feasible(queue.jobs[slot], cycle.snapshot)
        except UnschedulableError as error:
            cycle.reject(slot, error)
    _admit_lookups(cycle)
    for reservation in cycle.snapshot.reservations:
        family = queue.slots_of_workflow(reservation.workflow)
        for slot in sorted(family, key=key.__getitem__):
            if cycle.is_open[slot] and cycle.may_start[slot]:
                cycle.try_admit_reserved(slot)


def _admit_lookups(cycle: CycleState) -> None:
    """Start cache lookups of compile jobs, up to the limit of concurrent ones."""
    queue = cycle.queue
    room = cycle.snapshot.policy.max_lookups
    looking = Counter(
        [grant.account.user for grant in cycle.snapshot.grants if grant.holding.is_lookup]
    )
    room -= looking.total()
    most = cycle.snapshot.policy.max_user_lookups
    for slot in sorted(queue.lookup_slots(), key=cycle.key.__getitem__):
        job = queue.jobs[slot]
        if room <= 0:
            return
        if looking[job.account.user] >= most:
            continue
        if cycle.is_open[slot] and not job.is_held and not cycle.rooms.is_paused(job.session):
            cycle.admit_lookup(slot)
            looking[job.account.user] += 1
            room -= 1


def _beyond_quota(cycle: CycleState) -> NDArray[np.bool_]:
    queue = cycle.queue
    quotas = cycle.rooms.quotas
    most = [
        None if (quota := quotas.get(a.session)) is None else quota.max_systems
        for a in queue.accounts
    ]
    limit = np.array([10**9 if number is None else number for number in most], np.int64)
    size = len(queue)
    most = [
        None if (quota := quotas.get(a.session)) is None else quota.max_node_groups
        for a in queue.accounts
    ]
    group_limit = np.array([10**9 if number is None else number for number in most], np.int64)
    account = queue.columns.account[:size]
    beyond: NDArray[np.bool_] = queue.columns.demand[0, :size] > limit[account]
    return beyond | (queue.columns.demand[GROUPS, :size] > group_limit[account])


def check_feasible(job: PendingJob, snapshot: ClusterSnapshot) -> None:
    """Refuse a request that no state of this cluster could grant.

    Args:
        job: The request.

    Raises:
        UnschedulableError: It asks for more than exists, or than its session may ever use; the
            message has both numbers.
    """
    demand = job.demand
    num_existing = len(snapshot.systems)
    if demand.num_systems > num_existing:
        raise UnschedulableError(
            f"cluster lacks requested capacity: requested {demand.num_systems} system[type:CS2] "
            f"but {num_existing} exists.",
            hint=f"Ask for a num_csx of at most {num_existing}.",
        )
    num_groups = sum(group.kind >= demand.group_kind for group in snapshot.node_groups)
    if demand.num_node_groups > num_groups:
        raise UnschedulableError(
            f"cluster lacks requested capacity: requested {demand.num_node_groups} "
            f"nodegroup[type:{demand.group_kind.name.lower()}] but {num_groups} exists.",
            hint="`csctl get nodegroups` shows what there is.",
        )
    quota = next((quota for quota in snapshot.sessions if quota.name == job.session), None)
    if quota is not None and demand.num_systems > (most := quota.max_systems or 10**9):
        raise UnschedulableError(
            f"session {job.session!r} may use at most {most} system(s), its own and borrowed; "
            f"requested {demand.num_systems}.",
            hint=f"Ask for a num_csx of at most {most}, or for a larger session.",
        )
    if quota is not None and quota.max_node_groups is not None:
        _check_group_quota(demand, quota)
    for pod in () if snapshot.may_grow else demand.pods:
        _check_pod(pod, snapshot)
    most = Rooms(snapshot).driver_bytes_most
    if job.type is JobType.DRIVER and not snapshot.may_grow and bytes_of(job) > most:
        raise UnschedulableError(
            f"drivers may hold at most {most / _GIB:.0f}Gi of the memory of management nodes; "
            f"requested {bytes_of(job) / _GIB:.0f}Gi.",
            hint="Lower `driver` of the cluster file's `pod_memory`, or add management nodes.",
        )


def _check_group_quota(demand: Demand, quota: SessionQuota) -> None:
    if quota.max_node_groups is not None and demand.num_node_groups > quota.max_node_groups:
        raise UnschedulableError(
            f"session {quota.name!r} may use at most {quota.max_node_groups} nodegroup(s); "
            f"requested {demand.num_node_groups}.",
            hint="Ask for fewer populated node groups, or for a larger session.",
        )


def _check_pod(pod: PodDemand, snapshot: ClusterSnapshot) -> None:
    hosts = [node for node in snapshot.nodes if pod.role in node.roles]
    rooms = [
        NodeRoom(roles=node.roles, memory_bytes=node.memory_bytes, num_cores=node.num_cores)
        for node in hosts
    ]
    num_pods = sum(_num_fitting(pod, room) for room in rooms)
    if num_pods >= pod.count:
        return
    largest = max(rooms, key=lambda room: room.memory_bytes, default=None)
    capacity = (
        f" with insufficient capacity {_amounts(largest.num_cores, largest.memory_bytes)}"
        if largest
        else ""
    )
    raise UnschedulableError(
        f"cluster lacks requested capacity: requested {pod.count} node[role:{pod.role}]"
        f"{_amounts(pod.num_cores, pod.memory_bytes)} but {len(hosts)} exists{capacity}.",
        hint="Lower the memory that the job asks for; `csctl get cluster -n` shows the nodes.",
    )


def _num_fitting(pod: PodDemand, room: NodeRoom) -> int:
    by_memory = room.memory_bytes // pod.memory_bytes if pod.memory_bytes else pod.count
    by_cores = room.num_cores // pod.num_cores if pod.num_cores else pod.count
    return min(by_memory, by_cores, pod.count)


def _amounts(num_cores: int, memory_bytes: int) -> str:
    return f"{{cpu:{num_cores}, mem:{memory_bytes / _GIB:.0f}Gi}}"
