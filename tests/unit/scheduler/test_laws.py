"""What holds for every queue and cluster, on generated ones."""

import heapq
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from appliance.core.cluster.jobs import JobType
from appliance.core.cluster.requirements import PodDemand
from appliance.core.cluster.systems import System
from appliance.core.dependencies import Dependency
from appliance.core.ids import JobId
from appliance.scheduler.admission import Admit, Preempt, Reject
from appliance.scheduler.cycle import run_cycle
from appliance.scheduler.fair_share import Account
from appliance.scheduler.policy import EASY, Policy
from appliance.scheduler.queue import JobQueue, PendingJob
from appliance.scheduler.quota import Rooms
from appliance.scheduler.run_time import Basis, Estimate
from appliance.scheduler.snapshot import ClusterSnapshot, Grant, SessionQuota
from tests.support.scheduling import GIB, execute, management_node, systems

SESSIONS = ("lab", "shop")
NUM_SYSTEMS = 6
POLICIES = st.builds(
    Policy,
    backfill=st.sampled_from(list(type(Policy().backfill))),
    uses_fair_share=st.booleans(),
    allows_preemption=st.booleans(),
    reclaims_borrowed=st.booleans(),
)
LIMITS = st.one_of(st.none(), st.integers(1, 100).map(float))


@st.composite
def pending_jobs(draw, index):
    is_compile = draw(st.booleans())
    return PendingJob(
        id=JobId(f"j{index}"),
        type=JobType.COMPILE if is_compile else JobType.EXECUTE,
        sequence=index,
        priority=draw(st.sampled_from((50, 150, 250, 299, 350))),
        num_systems=0 if is_compile else draw(st.integers(1, NUM_SYSTEMS + 1)),
        pods=(PodDemand(role="management", memory_bytes=draw(st.integers(0, 5)) * GIB),)
        if is_compile
        else (),
        session=draw(st.sampled_from(SESSIONS)),
        user=draw(st.sampled_from(("a", "b"))),
        limit_seconds=draw(LIMITS),
        is_lookup=is_compile and draw(st.booleans()),
    )


@st.composite
def clusters(draw):
    free = draw(st.permutations(range(NUM_SYSTEMS)))
    grants = []
    for number, size in enumerate(draw(st.lists(st.integers(1, 3), max_size=4))):
        if size > len(free):
            break
        mine, free = free[:size], free[size:]
        seconds = float(draw(st.integers(1, 100)))
        grants.append(
            Grant(
                job=JobId(f"r{number}"),
                type=JobType.EXECUTE,
                systems=tuple(f"s{i}" for i in mine),
                priority=draw(st.sampled_from((150, 299, 350))),
                account=Account(draw(st.sampled_from(SESSIONS)), "a"),
                started_seconds=-float(draw(st.integers(0, 120))),
                estimate=Estimate(
                    expected_seconds=seconds, bound_seconds=seconds, basis=Basis.LIMIT
                ),
                has_time_limit=draw(st.booleans()),
                is_preemptible=draw(st.booleans()),
                is_ending=draw(st.booleans()),
            )
        )
    quotas = (
        SessionQuota(
            name="lab",
            num_systems=draw(st.integers(0, 4)),
            borrow_limit=draw(st.one_of(st.none(), st.integers(0, 3))),
        ),
    )
    return ClusterSnapshot(
        systems=tuple(
            System(name=s.name, is_healthy=draw(st.integers(0, 9)) > 0)
            for s in systems(NUM_SYSTEMS)
        ),
        nodes=(management_node(4),),
        grants=tuple(grants),
        draining=frozenset(draw(st.sets(st.sampled_from(("s0", "s1")), max_size=1))),
        sessions=quotas if draw(st.booleans()) else (),
        policy=draw(POLICIES),
    )


@st.composite
def queues(draw, most=12):
    return [draw(pending_jobs(index)) for index in range(draw(st.integers(0, most)))]


def comparable(decision):
    return (decision.job, str(decision.error)) if isinstance(decision, Reject) else decision


def admits(outcome):
    return [d for d in outcome.decisions if isinstance(d, Admit)]


@given(clusters(), queues())
def test_no_system_is_granted_twice_and_only_ones_in_service(snapshot, jobs):
    outcome = run_cycle(snapshot, JobQueue(jobs))
    new = [name for d in admits(outcome) for name in d.grant.systems]
    assert len(new) == len(set(new))
    assert set(new) <= {system.name for system in snapshot.free_systems()}


@given(clusters(), queues())
def test_gangs_are_whole_and_memory_is_never_overcommitted(snapshot, jobs):
    wanted = {job.id: job for job in jobs}
    outcome = run_cycle(snapshot, JobQueue(jobs))
    memory = 0
    for decision in admits(outcome):
        job = wanted[decision.job]
        assert len(decision.grant.systems) == job.num_systems
        placed = sum(pod.memory_bytes for pod in decision.grant.pods)
        assert placed == (
            0 if decision.grant.is_lookup else sum(pod.memory_bytes for pod in job.pods)
        )
        memory += placed
    assert memory <= 4 * GIB


@given(clusters(), queues())
def test_each_job_is_admitted_or_rejected_or_told_why_it_waits(snapshot, jobs):
    outcome = run_cycle(snapshot, JobQueue(jobs))
    settled = [d.job for d in outcome.decisions if isinstance(d, Admit | Reject)]
    assert sorted([*settled, *outcome.waits]) == sorted(job.id for job in jobs)
    for job, wait in outcome.waits.items():
        assert wait.job == job
        assert wait.reason.startswith("job is queueing.")
        if wait.expected_start is not None:
            assert wait.expected_start.at_seconds >= snapshot.now_seconds
            assert wait.expected_start.basis


@given(clusters(), queues())
def test_a_look_into_the_cache_never_waits(snapshot, jobs):
    outcome = run_cycle(snapshot, JobQueue(jobs))
    paused = {quota.name for quota in snapshot.sessions if quota.is_paused}
    lookups = {job.id for job in jobs if job.is_lookup and job.session not in paused}
    assert lookups.isdisjoint(outcome.waits)


@given(clusters(), queues())
def test_preemption_never_lowers_the_admitted_priority(snapshot, jobs):
    policy = replace(snapshot.policy, allows_preemption=True)
    snapshot = replace(snapshot, policy=policy)
    outcome = run_cycle(snapshot, JobQueue(jobs))
    priority = {job.id: job.priority for job in jobs}
    holders = {grant.job: grant for grant in snapshot.grants}
    stopped = [d for d in outcome.decisions if isinstance(d, Preempt)]
    assert len({d.job for d in stopped}) == len(stopped)
    for decision in stopped:
        victim = holders[decision.job]
        assert victim.is_preemptible
        assert not victim.is_ending
        assert priority[decision.beneficiary] <= victim.priority
        assert decision.beneficiary in outcome.waits


@given(clusters(), queues())
def test_after_preemption_its_beneficiary_starts(snapshot, jobs):
    # What the stopped jobs used and held changes who is entitled to more, by fair share and by
    # quota; the freed systems then go to whoever is entitled, so order must not rest on either.
    policy = replace(snapshot.policy, allows_preemption=True, uses_fair_share=False)
    snapshot = replace(snapshot, policy=policy, sessions=())
    queue = JobQueue(jobs)
    outcome = run_cycle(snapshot, queue)
    beneficiaries = {d.beneficiary for d in outcome.decisions if isinstance(d, Preempt)}
    if not beneficiaries:
        return
    stopped = {d.job for d in outcome.decisions if isinstance(d, Preempt)}
    left = [g for g in snapshot.grants if g.job not in stopped and not g.is_ending]
    for decision in outcome.decisions:
        if not isinstance(decision, Preempt):
            queue.remove(decision.job)
    left += [d.grant for d in admits(outcome)]
    after = run_cycle(replace(snapshot, grants=tuple(left)), queue)
    assert beneficiaries <= {d.job for d in admits(after)}


@given(clusters(), queues())
def test_the_same_values_give_the_same_decisions(snapshot, jobs):
    first, second = run_cycle(snapshot, JobQueue(jobs)), run_cycle(snapshot, JobQueue(jobs[::-1]))
    assert list(map(comparable, first.decisions)) == list(map(comparable, second.decisions))
    assert dict(first.waits) == dict(second.waits)


@given(clusters(), queues())
def test_a_second_cycle_finds_nothing_more_to_admit(snapshot, jobs):
    """Work conservation: what can start without delaying a promise starts at once."""
    snapshot = replace(snapshot, policy=Policy(uses_fair_share=False), sessions=())
    queue = JobQueue(jobs)
    outcome = run_cycle(snapshot, queue)
    for decision in outcome.decisions:
        queue.remove(decision.job)
    grants = (*snapshot.grants, *(d.grant for d in admits(outcome)))
    assert admits(run_cycle(replace(snapshot, grants=grants), queue)) == []


@given(clusters(), queues())
def test_no_system_idles_while_the_first_job_fits(snapshot, jobs):
    snapshot = replace(snapshot, sessions=())
    outcome = run_cycle(snapshot, JobQueue(jobs))
    num_free = len(snapshot.free_systems()) - sum(len(d.grant.systems) for d in admits(outcome))
    waiting = [job for job in jobs if job.id in outcome.waits and job.type is JobType.EXECUTE]
    first = [job for job in waiting if outcome.waits[job.id].position == 0]
    assert all(job.num_systems > num_free for job in first)


def easy_reservation(num_systems, ends, jobs):
    """Return which job EASY reserves for and when, in the plainest form of the algorithm.

    Args:
        num_systems: Systems of the cluster.
        ends: End bound and number of systems of each running job.
        jobs: Number of systems and bound of each waiting job, in order.
    """
    running = list(ends)
    free = num_systems - sum(size for _, size in running)
    for index, (size, bound) in enumerate(jobs):
        if size <= free:
            free -= size
            running.append((bound, size))
            continue
        heap = sorted(running)
        heapq.heapify(heap)
        while True:
            end, back = heapq.heappop(heap)
            free += back
            if free >= size:
                return index, end
    return None


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(1, 3)), max_size=3),
    st.lists(st.tuples(st.integers(1, 6), st.integers(1, 50)), min_size=1, max_size=10),
    st.sampled_from((EASY, Policy(uses_fair_share=False), Policy(uses_fair_share=True))),
)
def test_the_head_is_expected_no_later_than_easy_reserves(running, waiting, policy):
    grants, used = [], 0
    for number, (end, size) in enumerate(running):
        if used + size > NUM_SYSTEMS:
            break
        seconds = Estimate(expected_seconds=end, bound_seconds=end, basis=Basis.LIMIT)
        grants.append(
            Grant(
                job=JobId(f"r{number}"),
                type=JobType.EXECUTE,
                systems=tuple(f"s{used + i}" for i in range(size)),
                started_seconds=0.0,
                estimate=seconds,
                has_time_limit=True,
            )
        )
        used += size
    jobs = [
        execute(f"j{n}", size, sequence=n, limit_seconds=float(bound))
        for n, (size, bound) in enumerate(waiting)
    ]
    snapshot = ClusterSnapshot(systems=systems(NUM_SYSTEMS), grants=tuple(grants), policy=policy)
    outcome = run_cycle(snapshot, JobQueue(jobs))
    ends = [(grant.estimate.bound_seconds, len(grant.systems)) for grant in grants]
    reserved = easy_reservation(NUM_SYSTEMS, ends, waiting)
    if reserved is None:
        assert not outcome.waits
        return
    index, at = reserved
    start = outcome.waits[f"j{index}"].expected_start
    assert start.is_promised
    assert start.at_seconds <= at


class Clockwork:
    """A cluster on which jobs end when they are told to; keeps what was promised and what came."""

    def __init__(self, policy):
        self.policy = policy
        self.queue = JobQueue()
        self.running = {}
        self.ends = {}
        self.promised = {}
        self.started = {}

    def step(self, now):
        for job in [job for job, end in self.ends.items() if end <= now]:
            del self.ends[job], self.running[job]
        snapshot = ClusterSnapshot(
            systems=systems(NUM_SYSTEMS),
            grants=tuple(self.running.values()),
            now_seconds=now,
            policy=self.policy,
        )
        outcome = run_cycle(snapshot, self.queue)
        for decision in admits(outcome):
            job = self.queue.remove(decision.job)
            self.running[job.id] = decision.grant
            self.ends[job.id] = now + float(job.program)
            self.started[job.id] = now
        for job, wait in outcome.waits.items():
            start = wait.expected_start
            if start is not None and start.is_promised:
                self.promised.setdefault(job, start.at_seconds)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 30), st.integers(1, NUM_SYSTEMS), st.integers(1, 40), st.integers(1, 40)
        ),
        max_size=15,
    ),
    st.sampled_from((EASY, Policy(uses_fair_share=False, max_wait_seconds=(None,) * 4))),
)
def test_a_promise_is_kept_when_limits_are(jobs, policy):
    arrivals = sorted(
        (submit, number, size, min(run, limit), limit)
        for number, (submit, size, run, limit) in enumerate(jobs)
    )
    cluster = Clockwork(policy)
    now = 0.0
    while arrivals or cluster.ends:
        events = [float(arrivals[0][0])] if arrivals else []
        now = min([*events, *cluster.ends.values()])
        while arrivals and arrivals[0][0] <= now:
            _, number, size, run, limit = arrivals.pop(0)
            sequence = len(cluster.started) + len(cluster.queue)
            cluster.queue.add(
                execute(
                    f"j{number}",
                    size,
                    sequence=sequence,
                    submitted_seconds=now,
                    limit_seconds=float(limit),
                    program=str(run),
                )
            )
        cluster.step(now)
    assert len(cluster.started) == len(jobs)
    for job, promised in cluster.promised.items():
        assert cluster.started[job] <= promised


@st.composite
def sessions_with_limits(draw):
    some = st.one_of(st.none(), st.integers(0, 3))
    return [
        SessionQuota(
            name=name,
            num_systems=draw(some),
            borrow_limit=draw(some),
            max_node_groups=draw(some),
            max_executes=draw(some),
            max_compiles=draw(some),
            is_paused=draw(st.booleans()),
        )
        for name in draw(st.sets(st.sampled_from(SESSIONS)))
    ]


@st.composite
def jobs_of_any_type(draw, index):
    job_type = draw(st.sampled_from(list(JobType)))
    memory = st.integers(0, 3).map(lambda gib: gib * GIB)
    return PendingJob(
        id=JobId(f"j{index}"),
        type=job_type,
        sequence=index,
        priority=299,
        num_systems=draw(st.integers(0, 3)),
        reserve_systems=draw(st.integers(0, 1)),
        num_node_groups=draw(st.integers(0, 2)),
        pods=draw(
            st.sampled_from([(), (PodDemand(role="management", memory_bytes=draw(memory)),)])
        ),
        session=draw(st.sampled_from((*SESSIONS, "elsewhere"))),
        is_lookup=job_type is JobType.COMPILE and draw(st.booleans()),
        held_by=draw(st.sampled_from(("", "", "ada"))),
        after=draw(st.sampled_from([(), (), (Dependency(jobs=(JobId("j0"),)),)])),
    )


@given(clusters(), sessions_with_limits(), st.data())
def test_the_whole_queue_is_held_against_limits_as_each_of_its_jobs_is(snapshot, quotas, data):
    jobs = [data.draw(jobs_of_any_type(index)) for index in range(data.draw(st.integers(0, 8)))]
    stopped = data.draw(st.sampled_from(("", "", "", "the disk is full")))
    rooms, queue = Rooms(replace(snapshot, sessions=tuple(quotas), stopped=stopped)), JobQueue(jobs)
    for job in data.draw(st.lists(st.sampled_from(jobs), max_size=3)) if jobs else []:
        rooms.charge(job.session, job.type, job.num_systems, job.num_node_groups)
        if job.type is JobType.DRIVER:
            rooms.charge_driver(job)
    assert rooms.open_slots(queue).tolist() == [rooms.admits(job) for job in queue.jobs]
