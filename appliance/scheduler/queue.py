"""The pending jobs as arrays: a scheduling cycle over a hundred thousand takes milliseconds.

Each job has a slot; what the cycle compares lies in one array per attribute, so that the whole
queue is held against what is free in a few vector operations. The queue is not kept sorted: order
follows from a 64-bit key per job that depends on time and on others' use, and a cycle needs only
the first few. A key reads, from the highest bits down: priority value, whether the job's session
would borrow, its session's class of use, its user's class of use, sequence of submission.
"""

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from appliance.core.cluster.jobs import JobType
from appliance.core.cluster.records import DEFAULT_SESSION
from appliance.core.cluster.requirements import GroupKind, PodDemand
from appliance.core.dependencies import Dependency
from appliance.core.ids import JobId, WorkflowId
from appliance.core.quick_init import quick_init
from appliance.scheduler.demand import NUM_COLUMNS, Demand
from appliance.scheduler.fair_share import Account
from appliance.scheduler.run_time import Estimate, Origin, RunHistory

SEQUENCE_BITS = 40
ACCOUNT_BITS = 9
VALUE_SHIFT = SEQUENCE_BITS + ACCOUNT_BITS
LAST_KEY = np.iinfo(np.int64).max

_FIRST_SLOTS = 1024
_SEARCHED_ONE_BY_ONE = 32


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class PendingJob:
    """A job that waits for resources.

    Attributes:
        sequence: Order of submission.
        priority: Lower goes first.
        num_systems: Whole systems it needs; 0 for a compile job.
        num_node_groups: MemoryX node groups it needs.
        group_kind: The smallest kind of node group that will do.
        pods: Pods that count against nodes; empty counts nothing.
        reserve_systems: Systems to hold from its start for later jobs of its workflow.
        session: Namespace it belongs to.
        user: Who submitted it.
        program: Hash of its program, or whatever else tells like runs; may be empty.
        submitted_seconds: When it was submitted, on the snapshot's scale of time.
        limit_seconds: After this time it is ended; None sets no limit.
        is_lookup: For a compile job, whether it has yet to find out if its answer lies in the
            compile cache: for that it starts at once and takes nothing.
        is_preemptible: Whether it can go on from a checkpoint once it runs.
        held_by: Who holds it back: it keeps its place and does not start; empty for nobody.
        after: How other jobs have yet to end before it may start.
        array: The array whose limit it starts within; empty if there is none.
        array_limit: Of that array at most so many run at once.
        awaits_place: Whether so many run already, or go before it.
    """

    id: JobId
    type: JobType
    sequence: int
    priority: int
    num_systems: int
    num_node_groups: int = 0
    group_kind: GroupKind = GroupKind.REGULAR
    pods: tuple[PodDemand, ...] = ()
    reserve_systems: int = 0
    session: str = DEFAULT_SESSION
    user: str = ""
    workflow: WorkflowId | None = None
    program: str = ""
    submitted_seconds: float = 0.0
    limit_seconds: float | None = None
    is_lookup: bool = False
    is_preemptible: bool = False
    held_by: str = ""
    after: tuple[Dependency, ...] = ()
    array: str = ""
    array_limit: int = 0
    awaits_place: bool = False

    @property
    def is_held(self) -> bool:
        """Whether it keeps its place and does not start, whatever is free."""
        return bool(self.held_by or self.after or self.awaits_place)

    @property
    def account(self) -> Account:
        """Whom its use is charged to."""
        return Account(self.session, self.user)

    @property
    def demand(self) -> Demand:
        """What it needs before it can start."""
        return Demand(
            num_systems=self.num_systems + self.reserve_systems,
            num_node_groups=self.num_node_groups,
            group_kind=self.group_kind,
            pods=self.pods,
        )


QUEUE_TYPES = (JobType.EXECUTE, JobType.COMPILE, JobType.DRIVER)
"""Queue types, in the order of their numbers; the first blocked job of each is promised a start, so
that no type can starve behind another."""


class Columns:
    """What is compared of each job, one array per attribute and one element per slot.

    Args:
        num_slots: Room for so many jobs.
    """

    __slots__ = (
        "account",
        "bound",
        "demand",
        "expected",
        "is_held",
        "known_bound",
        "limit",
        "origin",
        "queue_type",
        "sequence",
        "submitted",
        "value",
    )

    def __init__(self, num_slots: int) -> None:
        self.value: NDArray[np.int64] = np.zeros(num_slots, np.int64)
        self.sequence: NDArray[np.int64] = np.zeros(num_slots, np.int64)
        self.queue_type: NDArray[np.int8] = np.zeros(num_slots, np.int8)
        self.is_held: NDArray[np.bool_] = np.zeros(num_slots, np.bool_)
        self.account: NDArray[np.int32] = np.zeros(num_slots, np.int32)
        self.origin: NDArray[np.int32] = np.zeros(num_slots, np.int32)
        self.submitted: NDArray[np.float64] = np.zeros(num_slots)
        self.limit: NDArray[np.float64] = np.zeros(num_slots)
        self.expected: NDArray[np.float64] = np.zeros(num_slots)
        self.bound: NDArray[np.float64] = np.zeros(num_slots)
        self.known_bound: NDArray[np.float64] = np.zeros(num_slots)
        self.demand: NDArray[np.int64] = np.zeros((NUM_COLUMNS, num_slots), np.int64)

    def first(self, num_slots: int, room: int | None = None) -> "Columns":
        """Return a copy of the first slots, with room for more if asked for."""
        other = object.__new__(Columns)
        for name in self.__slots__:
            old = getattr(self, name)
            new = np.zeros((*old.shape[:-1], room or num_slots), old.dtype)
            new[..., :num_slots] = old[..., :num_slots]
            setattr(other, name, new)
        return other

    def move(self, source: int, target: int) -> None:
        """Copy one slot over another."""
        for name in self.__slots__:
            array = getattr(self, name)
            array[..., target] = array[..., source]


class JobQueue:
    """The pending jobs. Adding, removing and changing one costs microseconds at any length.

    Args:
        jobs: Those that wait already.
        history: Says how long jobs run; the queue follows what it learns through `relearn`.
    """

    def __init__(self, jobs: Iterable[PendingJob] = (), history: RunHistory | None = None) -> None:
        self.history = history or RunHistory()
        self.accounts: list[Account] = []
        self.jobs: list[PendingJob] = []
        self.demands: list[Demand] = []
        self.columns = Columns(_FIRST_SLOTS)
        self._used: set[int] = set()
        self._slots: dict[JobId, int] = {}
        self._account_numbers: dict[Account, int] = {}
        self._origins: list[Origin] = []
        self._origin_numbers: dict[Origin, int] = {}
        self._origins_of_user: dict[tuple[str, JobType], list[int]] = {}
        self._learned_version = self.history.version_of_all
        self._lookups: dict[JobId, None] = {}
        self._by_workflow: dict[WorkflowId, dict[JobId, None]] = {}
        for job in jobs:
            self.add(job)

    def __len__(self) -> int:
        return len(self.jobs)

    def __contains__(self, job: JobId) -> bool:
        return job in self._slots

    def __iter__(self) -> Iterator[PendingJob]:
        return iter(self.jobs)

    @property
    def used_columns(self) -> list[int]:
        """Columns of demand in which any job ever asked for something."""
        return sorted(self._used)

    def slot_of(self, job: JobId) -> int:
        """Return a job's slot; it may change when any job is removed."""
        return self._slots[job]

    def lookup_slots(self) -> list[int]:
        """Return the slots of compile jobs that have yet to look into the compile cache."""
        return [self._slots[job] for job in self._lookups]

    def slots_of_workflow(self, workflow: WorkflowId) -> list[int]:
        """Return the slots of a workflow's jobs."""
        return [self._slots[job] for job in self._by_workflow.get(workflow, ())]

    def add(self, job: PendingJob) -> None:
        """Add a job, or replace the one with the same id."""
        slot = self._slots.get(job.id)
        if slot is None:
            slot = len(self.jobs)
            self.jobs.append(job)
            self.demands.append(job.demand)
            self._slots[job.id] = slot
            if slot >= len(self.columns.value):
                self.columns = self.columns.first(slot, room=2 * slot)
        else:
            self._forget(self.jobs[slot])
            self.jobs[slot] = job
            self.demands[slot] = job.demand
        self._write(slot, job)
        if job.is_lookup:
            self._lookups[job.id] = None
        if job.workflow:
            self._by_workflow.setdefault(job.workflow, {})[job.id] = None

    @contextmanager
    def joined_by(self, job: PendingJob) -> Iterator[None]:
        """Add a job for the duration of the block, and remove every trace of it afterwards.

        Copying a queue of a hundred thousand jobs instead would take 20 ms.

        Args:
            job: The job; none of its id waits.
        """
        assert job.id not in self._slots
        columns, used = self.columns, self._used.copy()
        num_accounts, num_origins = len(self.accounts), len(self._origins)
        self.add(job)  # into the last slot, so that no other job moves when it leaves
        try:
            yield
        finally:
            self.remove(job.id)
            self.columns, self._used = columns, used
            for account in self.accounts[num_accounts:]:
                del self._account_numbers[account]
            for origin in self._origins[num_origins:]:
                del self._origin_numbers[origin]
                numbers = self._origins_of_user[origin.user, origin.type]
                numbers.pop()
                if not numbers:
                    del self._origins_of_user[origin.user, origin.type]
            del self.accounts[num_accounts:], self._origins[num_origins:]

    def remove(self, job: JobId) -> PendingJob | None:
        """Remove a job and return it; None if it is not pending."""
        slot = self._slots.pop(job, None)
        if slot is None:
            return None
        removed = self.jobs[slot]
        self._forget(removed)
        last, demand = self.jobs.pop(), self.demands.pop()
        if last.id != job:
            self.jobs[slot], self.demands[slot] = last, demand
            self._slots[last.id] = slot
            self.columns.move(len(self.jobs), slot)
        return removed

    def relearn(self, finished: Collection[Origin]) -> None:
        """Update the run time estimates of the jobs that are like finished runs.

        Args:
            finished: Where those runs were from.
        """
        size, c = len(self.jobs), self.columns
        numbers = {
            number
            for user, _, job_type in finished
            for number in self._origins_of_user.get((user, job_type), ())
        }
        if self._learned_version != self.history.version_of_all:
            self._learned_version = self.history.version_of_all
            numbers.update(c.origin[:size].tolist())
        if not numbers:
            return
        learned = np.full((3, len(self._origins)), np.nan)
        for number in numbers:
            origin = self._origins[number]
            if origin in finished or not self.history.knows(*origin):
                found = self.history.estimate(*origin)
                learned[0, number] = found.expected_seconds
                learned[1, number] = found.bound_seconds
                learned[2, number] = found.known_bound_seconds
        slots = np.flatnonzero(learned[0, c.origin[:size]] > 0)
        if not slots.size:
            return
        expected, bound, known_bound = learned[:, c.origin[slots]]
        limit = c.limit[slots]
        c.expected[slots] = np.minimum(expected, limit)
        is_free = np.isinf(limit)
        if is_free.any():
            free = slots[is_free]
            c.bound[free] = bound[is_free]
            c.known_bound[free] = known_bound[is_free]

    def estimate_of(self, job: PendingJob) -> Estimate:
        """Return how long a job will run."""
        return self.history.estimate(job.user, job.program, job.type, job.limit_seconds)

    def _write(self, slot: int, job: PendingJob) -> None:
        c = self.columns
        estimate = self.estimate_of(job)
        row = self.demands[slot].columns()
        c.value[slot] = job.priority
        c.sequence[slot] = job.sequence
        c.queue_type[slot] = QUEUE_TYPES.index(job.type.queue_type)
        c.is_held[slot] = job.is_held
        c.account[slot] = self._number_of(job.account)
        c.origin[slot] = self._origin_of(job)
        c.submitted[slot] = job.submitted_seconds
        c.limit[slot] = np.inf if job.limit_seconds is None else job.limit_seconds
        c.expected[slot] = estimate.expected_seconds
        c.bound[slot] = estimate.bound_seconds
        c.known_bound[slot] = estimate.known_bound_seconds
        c.demand[:, slot] = row
        self._used.update(number for number, amount in enumerate(row) if amount)

    def _number_of(self, account: Account) -> int:
        number = self._account_numbers.setdefault(account, len(self.accounts))
        if number == len(self.accounts):
            self.accounts.append(account)
        return number

    def _origin_of(self, job: PendingJob) -> int:
        origin = Origin(job.user, job.program, job.type)
        number = self._origin_numbers.setdefault(origin, len(self._origins))
        if number == len(self._origins):
            self._origins.append(origin)
            self._origins_of_user.setdefault((job.user, job.type), []).append(number)
        return number

    def _forget(self, job: PendingJob) -> None:
        self._lookups.pop(job.id, None)
        family = self._by_workflow.get(job.workflow) if job.workflow else None
        if job.workflow and family is not None:
            family.pop(job.id, None)
            if not family:
                del self._by_workflow[job.workflow]


def in_order(key: NDArray[np.int64], is_open: NDArray[np.bool_]) -> Iterator[int]:
    """Yield open slots from the smallest key up; whoever takes one closes it before the next.

    The first few are searched for one by one, which for a long queue costs a hundredth of sorting
    it; most cycles need no more.

    Args:
        key: One key per slot.
        is_open: Which slots may be yielded; it may change between two of them.
    """
    for _ in range(_SEARCHED_ONE_BY_ONE):
        masked = np.where(is_open, key, LAST_KEY)
        slot = int(masked.argmin()) if len(masked) else 0
        if not len(masked) or masked[slot] == LAST_KEY:
            return
        yield slot
    rest = np.flatnonzero(is_open)
    for slot in rest[key[rest].argsort()].tolist():
        if is_open[slot]:
            yield slot
