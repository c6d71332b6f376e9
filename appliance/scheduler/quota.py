"""What each session may still take: its own systems, what it may borrow, its number of jobs.

A session's quota is its own whenever it asks: within equal priority, jobs of sessions that are
within theirs go before jobs that would borrow. Nothing of an idle quota is kept free, so that the
cluster works; `preemption` can take it back where that is allowed.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from appliance.core.cluster.jobs import JobType
from appliance.scheduler.demand import GROUPS
from appliance.scheduler.fair_share import Account
from appliance.scheduler.queue import QUEUE_TYPES, JobQueue, PendingJob
from appliance.scheduler.snapshot import ClusterSnapshot

NO_LIMIT = 2**31


class Rooms:
    """What is left of each session's quota, during one cycle.

    Args:
        snapshot: Quotas, who holds what, and whether anything may start.
    """

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self.is_stopped = bool(snapshot.stopped)
        self.quotas = {quota.name: quota for quota in snapshot.sessions}
        self.num_systems: dict[str, int] = {}
        self.num_groups: dict[str, int] = {}
        self._num_jobs: dict[tuple[str, JobType], int] = {}
        self.driver_bytes_most = _driver_bytes_most(snapshot)
        self.driver_bytes = sum(
            pod.memory_bytes
            for grant in snapshot.grants
            if grant.type is JobType.DRIVER
            for pod in grant.pods
        )
        if not self.quotas:
            return
        held: set[str] = set()
        for grant in snapshot.grants:
            holding = grant.holding
            if holding.is_lookup:
                continue
            held.update(grant.systems, holding.reserved_systems, holding.node_groups)
            num_systems = len(grant.systems) + len(holding.reserved_systems)
            self.charge(grant.account.session, grant.type, num_systems, len(holding.node_groups))
        for reservation in snapshot.reservations:
            idle = len(set(reservation.systems) - held)
            session = reservation.account.session
            self.num_systems[session] = self.num_systems.get(session, 0) + idle
            idle_groups = len(set(reservation.node_groups) - held)
            self.num_groups[session] = self.num_groups.get(session, 0) + idle_groups

    def charge(self, session: str, job_type: JobType, num_systems: int, num_groups: int) -> None:
        """Count a job that starts."""
        self.num_systems[session] = self.num_systems.get(session, 0) + num_systems
        self.num_groups[session] = self.num_groups.get(session, 0) + num_groups
        key = (session, job_type.queue_type)
        self._num_jobs[key] = self._num_jobs.get(key, 0) + 1

    def charge_driver(self, job: PendingJob) -> None:
        """Count the memory of a driver that starts."""
        self.driver_bytes += bytes_of(job)

    def num_jobs(self, session: str, job_type: JobType) -> int:
        """Return how many jobs of a type's queue type a session has running."""
        return self._num_jobs.get((session, job_type.queue_type), 0)

    def systems_left(self, session: str) -> int:
        """Return how many systems a session may still take, borrowed ones too."""
        quota = self.quotas.get(session)
        if quota is None or quota.max_systems is None:
            return NO_LIMIT
        return quota.max_systems - self.num_systems.get(session, 0)

    def groups_left(self, session: str) -> int:
        """Return how many node groups a session may still take."""
        quota = self.quotas.get(session)
        if quota is None or quota.max_node_groups is None:
            return NO_LIMIT
        return quota.max_node_groups - self.num_groups.get(session, 0)

    def own_left(self, session: str) -> int:
        """Return how many systems a session may still take without borrowing."""
        quota = self.quotas.get(session)
        if quota is None or quota.num_systems is None:
            return NO_LIMIT
        return quota.num_systems - self.num_systems.get(session, 0)

    def admits(
        self, job: PendingJob, *, already_held: int = 0, groups_already_held: int = 0
    ) -> bool:
        """Whether nobody holds a job back and its session may start it, apart from what is free.

        Args:
            already_held: Systems that its workflow holds for it and that are counted already.
            groups_already_held: The same of node groups.
        """
        if self.is_stopped or job.is_held or not self.admits_driver(job):
            return False
        groups = job.num_node_groups - groups_already_held
        if groups > 0 and groups > self.groups_left(job.session):
            return False
        needed = job.num_systems + job.reserve_systems - already_held
        if needed > 0 and needed > self.systems_left(job.session):
            return False
        return self._has_turn(job.session, job.type)

    def admits_driver(self, job: PendingJob) -> bool:
        """Whether drivers may hold so much more memory; True for any other job."""
        if job.type is not JobType.DRIVER or not job.pods:
            return True
        return self.driver_bytes + bytes_of(job) <= self.driver_bytes_most

    def open_slots(self, queue: JobQueue) -> NDArray[np.bool_]:
        """Return `admits` for each slot of the queue."""
        size = len(queue)
        if self.is_stopped:
            return np.zeros(size, np.bool_)
        columns = queue.columns
        is_open: NDArray[np.bool_] = ~columns.is_held[:size]
        is_driver = columns.queue_type[:size] == QUEUE_TYPES.index(JobType.DRIVER)
        for slot in np.flatnonzero(is_driver & is_open).tolist():
            is_open[slot] = self.admits_driver(queue.jobs[slot])
        if not self.quotas:
            return is_open
        numbers: dict[str, int] = {}
        of_account = [numbers.setdefault(a.session, len(numbers)) for a in queue.accounts]
        session = np.array(of_account, np.intp)[columns.account[:size]]
        left = np.array([self.systems_left(name) for name in numbers], np.int64)
        needed = columns.demand[0, :size]
        is_open &= (needed == 0) | (needed <= left[session])
        if any(quota.max_node_groups is not None for quota in self.quotas.values()):
            room = np.array([self.groups_left(name) for name in numbers], np.int64)
            groups = columns.demand[GROUPS, :size]
            is_open &= (groups == 0) | (groups <= room[session])
        for queue_type, job_type in enumerate(QUEUE_TYPES):
            may = np.array([self._has_turn(name, job_type) for name in numbers], np.bool_)
            is_open &= may[session] | (columns.queue_type[:size] != queue_type)
        return is_open

    def borrowing(self, accounts: Sequence[Account]) -> NDArray[np.int64]:
        """Return, for each account, 1 if its session has all of its own quota already, else 0."""
        if not self.quotas:
            return np.zeros(len(accounts), np.int64)
        return np.array([int(self.own_left(a.session) <= 0) for a in accounts], np.int64)

    def is_paused(self, session: str) -> bool:
        """Whether a session's pending jobs stay pending, by its own word or as all do."""
        if self.is_stopped:
            return True
        quota = self.quotas.get(session)
        return quota is not None and quota.is_paused

    def _has_turn(self, session: str, job_type: JobType) -> bool:
        quota = self.quotas.get(session)
        if quota is None:
            return True
        limit = quota.max_jobs(job_type)
        is_full = limit is not None and self.num_jobs(session, job_type) >= limit
        return not quota.is_paused and not is_full


def bytes_of(job: PendingJob) -> int:
    """Return the memory that a job's pods count for on nodes."""
    return sum(pod.count * pod.memory_bytes for pod in job.pods)


def _driver_bytes_most(snapshot: ClusterSnapshot) -> int:
    nodes = (node for node in snapshot.nodes if "management" in node.roles)
    return int(snapshot.policy.driver_share * sum(node.memory_bytes for node in nodes))
