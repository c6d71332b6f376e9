"""Replays jobs second by second through the scheduler and all that its forecasts rest on.

Real are the queue, the cycle, the history of runs, what a coordinator reports of its session, what
management keeps of that, and the answers to those who ask. Only time and the jobs are simulated.
"""

import datetime as dt
import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from appliance.coordinator.run.session_times import SessionProgress
from appliance.core.cluster import readings
from appliance.core.cluster.jobs import JobType
from appliance.core.cluster.records import DEFAULT_SESSION
from appliance.core.cluster.run import RunProgress, RunSchedule
from appliance.core.cluster.systems import System
from appliance.core.ids import JobId, Role
from appliance.core.quantities import duration
from appliance.management.reconciler.mailbox import Mailbox
from appliance.management.reconciler.scheduling.dispatcher import Published
from appliance.scheduler.admission import Admit
from appliance.scheduler.cycle import run_cycle
from appliance.scheduler.fair_share import Account, UsageLedger
from appliance.scheduler.policy import Policy
from appliance.scheduler.queue import JobQueue, PendingJob
from appliance.scheduler.run_time import Origin, RunHistory
from appliance.scheduler.snapshot import ClusterSnapshot, Grant
from appliance.scheduler.waiting.expected_start import WaitingJobs
from appliance.scheduler.waiting.wait_reasons import Wait
from benchmarks.simulation.foresight import foreseen
from benchmarks.simulation.mixed_jobs import End, MixedJob, MixedSession
from protos.wsc.v1.management_pb2 import PodReport

REPORT_SECONDS = 2
ASK_SECONDS = 30
_PATIENCE_SECONDS = 900.0
"""Who cancels a waiting job does so within this time."""
_PAST_USE_SECONDS = 2e5
"""What users have used before, once to three times: a day of two systems each. In a cluster that
nobody has used the first jobs make everybody's share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a user was told of a waiting job.

    Attributes:
        job: The job's number.
        asked_seconds: When it was asked.
        start_seconds: The start that was expected; None if that could not be said.
        is_promised: Whether it was to start then or earlier.
        basis: What it rested on.
        whole_seconds: The start that somebody would have expected who knew how long all jobs take
            that nothing cuts short; None if nobody asked.
        known_seconds: The same of somebody who knew how long all jobs take.
    """

    job: int
    asked_seconds: float
    start_seconds: float | None
    is_promised: bool
    basis: str
    whole_seconds: float | None = None
    known_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What became of the jobs, and what was said before.

    Attributes:
        submits_seconds: When each job was submitted.
        starts_seconds: When each job started; None if it was cancelled before.
        answers: All answers.
        contradictions: Answers that contradict themselves, each other, or the time.
    """

    submits_seconds: Sequence[float]
    starts_seconds: Sequence[float | None]
    answers: Sequence[Answer]
    contradictions: Sequence[str]


class _VirtualClock:
    """The time of the replay, as what reports sessions reads it."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic_seconds(self) -> float:
        """Return the time of the replay."""
        return self.seconds

    def now(self) -> dt.datetime:
        """Return the same as a time of day."""
        return dt.datetime.fromtimestamp(self.seconds, dt.UTC)


class _Session:
    """A session that runs: what its pods report at a time."""

    def __init__(
        self, number: int, session: MixedSession, begun: float, clock: _VirtualClock
    ) -> None:
        self._number, self._session, self._begun = number, session, begun
        self._clock = clock
        schedule = RunSchedule(
            num_steps=session.num_steps, output_interval=1, checkpoint_steps=frozenset()
        )
        self.progress = SessionProgress(number, schedule, is_training=True, clock=clock)

    @property
    def last_step_seconds(self) -> float:
        """When the last step is complete."""
        return self._begun + self._session.completion_seconds(self._session.num_steps)

    @property
    def end_seconds(self) -> float:
        """When its client has fetched what it wants of it."""
        return self.last_step_seconds + self._session.fetch_seconds

    def completed_steps(self, session: int) -> int:
        """Return the steps that are complete."""
        assert session == self._number
        elapsed, low, high = self._clock.seconds - self._begun, 0, self._session.num_steps
        while low < high:
            step = (low + high + 1) // 2
            low, high = (
                (step, high)
                if self._session.completion_seconds(step) <= elapsed
                else (low, step - 1)
            )
        return low

    def reports(self, session: int | None = None) -> Sequence[PodReport]:
        """Return what the pods report: of the systems, of what passes batches on, of a worker."""
        told, completed = self._session, self.completed_steps(self._number)
        elapsed = max(self._clock.seconds - self._begun, 0.0)
        num_batches = min(told.num_batches(elapsed), told.most_batches(completed))
        loading = {readings.BATCH_LOADING: 2.0 + num_batches * told.batch_seconds}
        step = {readings.WALL_STEP: told.step_seconds}
        return (
            PodReport(role=Role.CHIEF.value, step=completed, readings=step),
            PodReport(role=Role.ACTIVATION.value, step=num_batches),
            PodReport(role=Role.WORKER.value, step=num_batches, readings=loading),
        )


class _Running:
    """A job that runs."""

    def __init__(self, number: int, job: MixedJob, grant: Grant, clock: _VirtualClock) -> None:
        self.number, self.job, self.grant, self._clock = number, job, grant, clock
        self.started_seconds = clock.seconds
        self._coming = deque(enumerate(job.sessions, start=1))
        self._next_seconds = clock.seconds + job.sessions[0].wait_seconds
        self.session: _Session | None = None
        self._index = 0
        self._end_seconds = clock.seconds + job.cut_seconds

    @property
    def is_over(self) -> bool:
        """Whether the job has ended."""
        now = self._clock.seconds
        is_done = self.session is None and not self._coming and now >= self._next_seconds
        return is_done or now >= self._end_seconds

    @property
    def has_succeeded(self) -> bool:
        """Whether nothing has ended it before its client did."""
        return self._clock.seconds < self._end_seconds

    def advance(self) -> Iterator[tuple[RunProgress, bool]]:
        """Yield what the coordinator reports now, and whether the session is over."""
        now = self._clock.seconds
        if self.session is None and self._coming and now >= self._next_seconds:
            self._index, session = self._coming.popleft()
            self.session = _Session(self._index, session, self._next_seconds, self._clock)
        if self.session is None:
            return
        is_over = now >= self.session.end_seconds
        if is_over or int(now) % REPORT_SECONDS == 0:
            report = self.session.progress.report(self.session, is_over=is_over)
            told = RunProgress(
                session=report.session,
                num_steps=report.num_steps,
                completed_steps=report.completed_steps,
                step_seconds=report.step_seconds,
                at_seconds=now,
            )
            yield told, is_over
        if is_over:
            waits = self._coming[0][1].wait_seconds if self._coming else self.job.tail_seconds
            self._next_seconds, self.session = self.session.end_seconds + waits, None


class RunReplay:
    """A simulated cluster and its users.

    Args:
        jobs: What is submitted.
        num_systems: Systems of the cluster.
        foresees: Whether it is found out, too, what could be said by somebody who knew the jobs.
    """

    def __init__(
        self, jobs: Sequence[MixedJob], num_systems: int, *, foresees: bool = False
    ) -> None:
        self._jobs, self._policy, self._foresees = jobs, Policy(), foresees
        self._systems = tuple(System(name=f"s{index}") for index in range(num_systems))
        self._clock = _VirtualClock()
        self._mailbox = Mailbox()
        self._history = RunHistory(self._policy)
        self._usage = UsageLedger(self._policy.half_life_seconds)
        for user in {job.user for job in jobs}:
            account = Account(DEFAULT_SESSION, f"user-{user}")
            used = (1 + user % 3) * _PAST_USE_SECONDS
            self._usage.charge(account, used, at_seconds=0.0)
        self._queue = JobQueue(history=self._history)
        self._running: dict[JobId, _Running] = {}
        self._starts: list[float | None] = [None] * len(jobs)
        self._answers: list[Answer] = []
        self._contradictions: list[str] = []

    def run(self) -> Replayed:
        """Replay all jobs to their ends."""
        submitted = 0
        while submitted < len(self._jobs) or self._running or len(self._queue):
            is_news = self._advance()
            while submitted < len(self._jobs) and self._is_due(submitted):
                self._queue.add(_pending(submitted, self._jobs[submitted]))
                submitted, is_news = submitted + 1, True
            is_news |= self._cancel_waiting()
            if is_news:
                self._schedule()
            if self._clock.seconds % ASK_SECONDS == 0:
                self._ask()
            self._clock.seconds += 1.0
        return Replayed(
            submits_seconds=[job.submit_seconds for job in self._jobs],
            starts_seconds=self._starts,
            answers=self._answers,
            contradictions=self._contradictions,
        )

    def _is_due(self, number: int) -> bool:
        return self._jobs[number].submit_seconds <= self._clock.seconds

    def _advance(self) -> bool:
        """Let running jobs go on, and return whether the queue has to be looked at."""
        is_news = False
        for name, running in [*self._running.items()]:
            for progress, is_over in running.advance():
                if is_over:
                    self._mailbox.progress.complete(name, progress)
                    is_news = True
                else:
                    is_news |= self._mailbox.progress.note(name, progress)
            if running.is_over:
                self._end(name, running)
                is_news = True
        return is_news

    def _end(self, name: JobId, running: _Running) -> None:
        now, grant = self._clock.seconds, running.grant
        assert grant.started_seconds is not None
        seconds = now - grant.started_seconds
        completed = self._mailbox.progress.completed(name)
        self._usage.charge(grant.account, grant.num_systems * seconds, at_seconds=now)
        user, program = grant.account.user, str(running.job.program)
        if running.has_succeeded:
            aftermath = None if completed is None else completed.after(now)
            self._history.observe(user, program, grant.type, seconds, aftermath)
            self._queue.relearn({Origin(user, program, grant.type)})
        else:
            self._history.observe_cut(user, program, grant.type, seconds)
        self._mailbox.progress.forget(name)
        del self._running[name]

    def _cancel_waiting(self) -> bool:
        """Cancel the jobs whose users have lost patience, and return whether there were any."""
        impatient = [
            pending.id
            for pending in self._queue
            if self._jobs[pending.sequence].end is End.CANCELLED
            and self._clock.seconds - pending.submitted_seconds
            > self._jobs[pending.sequence].lives * _PATIENCE_SECONDS
        ]
        for job in impatient:
            self._queue.remove(job)
        return bool(impatient)

    def _schedule(self) -> None:
        sessions = self._mailbox.progress.sessions
        grants = []
        for name, running in self._running.items():
            progress, completed = sessions(name)
            grants.append(replace(running.grant, progress=progress, completed=completed))
        snapshot = ClusterSnapshot(
            systems=self._systems,
            grants=tuple(grants),
            now_seconds=self._clock.seconds,
            usage=self._usage,
            policy=self._policy,
        )
        outcome = run_cycle(snapshot, self._queue)
        self._mailbox.published = Published(snapshot=snapshot, waits=outcome.waits)
        for decision in outcome.decisions:
            assert isinstance(decision, Admit), f"{decision} without preemption"
            pending = self._queue.remove(decision.job)
            assert pending is not None
            number = pending.sequence
            self._starts[number] = self._clock.seconds
            self._running[decision.job] = _Running(
                number, self._jobs[number], decision.grant, self._clock
            )

    def _ask(self) -> None:
        """Ask for every waiting job, as csctl, REST and the job's client do."""
        now = self._clock.seconds
        waits, again = self._mailbox.waits_at(now), self._mailbox.waits_at(now + 0.9)
        if waits is not again:
            self._contradictions.append(f"two answers in the second after {now}")
        if waits is None:
            return
        whole = self._foreseen(waits.waiting, cut=False) if self._foresees else {}
        known = self._foreseen(waits.waiting, cut=True) if self._foresees else {}
        for pending in self._queue:
            wait = waits[pending.id]
            start = wait.expected_start
            self._contradictions += _contradictions(wait, now)
            self._answers.append(
                Answer(
                    job=pending.sequence,
                    asked_seconds=now,
                    start_seconds=None if start is None else start.at_seconds,
                    is_promised=start is not None and start.is_promised,
                    basis="" if start is None else start.basis,
                    whole_seconds=whole.get(pending.id),
                    known_seconds=known.get(pending.id),
                )
            )

    def _foreseen(self, waiting: WaitingJobs, *, cut: bool) -> Mapping[JobId, float]:
        """Return the starts that somebody expects who knows how long all jobs will run.

        Args:
            cut: Whether it is known, too, which fail and which are cancelled as they run.
        """
        lengths = {
            pending.id: _length(self._jobs[pending.sequence], cut=cut) for pending in self._queue
        }
        ends = {
            name: math.ceil(running.started_seconds + _length(running.job, cut=cut))
            for name, running in self._running.items()
        }
        starts = foreseen(waiting, ends, lengths)
        found = {
            job.id: starts.find(slot) for slot, job in enumerate(waiting.jobs) if job.id in lengths
        }
        return {job: start.at_seconds for job, start in found.items() if start is not None}


def _length(job: MixedJob, *, cut: bool) -> float:
    return min(job.whole_seconds, job.cut_seconds) if cut else job.whole_seconds


def _contradictions(wait: Wait, now_seconds: float) -> Iterator[str]:
    start = wait.expected_start
    if start is None:
        return
    if start.at_seconds < now_seconds:
        yield f"{wait.job}: expected at {start.at_seconds}, in the past of {now_seconds}"
    said = duration(round(start.at_seconds - math.floor(now_seconds) - 1))
    if f"expected to start in {said} ({start.basis})" not in wait.reason:
        yield f"{wait.job}: starts in {said}, but {wait.reason}"
    if "expected" in wait.status:
        yield f"{wait.job}: a time in {wait.status}"


def _pending(number: int, job: MixedJob) -> PendingJob:
    return PendingJob(
        id=JobId(f"wsjob-{number:06d}"),
        type=JobType.EXECUTE,
        sequence=number,
        priority=job.priority,
        num_systems=job.num_systems,
        session=DEFAULT_SESSION,
        user=f"user-{job.user}",
        program=str(job.program),
        submitted_seconds=job.submit_seconds,
        limit_seconds=job.limit_seconds,
    )
