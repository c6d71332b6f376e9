"""The queue as people see it: positions, expected starts, reasons; for every entry point.

Everything is read from what the last scheduling cycle published, without waiting, with times as
they are expected when it is read (`Mailbox.waits_at`); only `would_start` asks the reconciler,
since it has to try.
"""

import datetime as dt
import math
from dataclasses import dataclass

from appliance.core.clock import Clock
from appliance.core.cluster.jobs import JobType, Phase
from appliance.core.cluster.records import DEFAULT_PRIORITY, User
from appliance.core.cluster.requirements import Requirements
from appliance.core.errors import ClusterError, ConflictError, UserError
from appliance.core.ids import JobId, new_job_id
from appliance.core.integers import MAX_SECONDS
from appliance.management.cluster.cluster_model import ClusterModel
from appliance.management.cluster.demands import default_requirements
from appliance.management.cluster.session_service import SessionService
from appliance.management.reconciler.mailbox import Mailbox
from appliance.management.reconciler.scheduling.dispatcher import account_user
from appliance.management.store.state import State
from appliance.scheduler.admission import Admit, Reject
from appliance.scheduler.queue import PendingJob
from appliance.scheduler.waiting.wait_reasons import Wait, WaitReason, Waits

_TRY_SECONDS = 10.0
_LAST = 2**39
"""Sequence of a job that nobody has submitted: after all others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueEntry:
    """A waiting job's place.

    Attributes:
        position: Waiting jobs of its type that are served before it, plus 1.
        kind: Why it waits, in one word.
        reason: Why, in a sentence without the expected start.
        blocking: Jobs that hold what it needs, the first to end first.
        behind: Waiting jobs that it may not delay.
        expected_start: When it is expected to start; None when that cannot be said.
        basis: What the expected start rests on; empty without one.
        is_promised: Whether nobody behind may delay that.
        run_seconds: How long it is expected to run; None when that cannot be said.
    """

    job: JobId
    position: int
    kind: WaitReason
    reason: str
    blocking: tuple[JobId, ...]
    behind: tuple[JobId, ...]
    expected_start: dt.datetime | None
    basis: str
    is_promised: bool
    run_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePage:
    """Some of the waiting jobs, in the order in which they are served.

    Attributes:
        total: How many wait altogether.
        as_of: When the cycle ran that all this rests on; None before the first.
        stopped: Why nothing is started; empty if jobs are.
    """

    entries: tuple[QueueEntry, ...]
    total: int
    as_of: dt.datetime | None
    stopped: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartAnswer:
    """What would become of a request now.

    Attributes:
        starts_now: Whether it would start at once.
        systems: The systems that it would get at once.
        entry: Its place, if it would wait.
        refusal: Why it could never start; empty if it could.
    """

    starts_now: bool
    systems: tuple[str, ...] = ()
    entry: QueueEntry | None = None
    refusal: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartQuestion:
    """A hypothetical request.

    Attributes:
        num_systems: Whole systems; 0 asks for a compile job.
        user: Who would make it.
        session: Where it would go; empty for the user's own.
        priority: Its priority value.
        limit_seconds: After so long it would be ended; None sets no limit.
        requirements: What it would ask for beyond its systems; None for the cluster's defaults.
    """

    num_systems: int
    user: User
    session: str = ""
    priority: int = DEFAULT_PRIORITY
    limit_seconds: float | None = None
    requirements: Requirements | None = None

    def __post_init__(self) -> None:
        if self.limit_seconds is not None and not 0 < self.limit_seconds <= MAX_SECONDS:
            raise UserError(
                f"A time limit of {self.limit_seconds:g} s is not possible.",
                hint=f"Give a number above 0 and of at most {MAX_SECONDS:,.0f}.",
            )


class QueueService:
    """Positions, expected starts and reasons.

    Args:
        state: The appliance's database.
        mailbox: Has what the last cycle found.
        model: What the cluster has.
        sessions: Where a request would go.
    """

    def __init__(
        self, state: State, mailbox: Mailbox, model: ClusterModel, sessions: SessionService
    ) -> None:
        self._state = state
        self._mailbox = mailbox
        self._model = model
        self._sessions = sessions
        self._clock: Clock = state.clock

    def page(self, *, offset: int = 0, limit: int = 100, session: str = "") -> QueuePage:
        """Return waiting jobs in the order in which they are served.

        Args:
            offset: Leave out so many at the front.
            limit: At most so many.
            session: Only of this session; empty for all.

        Raises:
            NotFoundError: There is no such session.
        """
        if session:
            self._sessions.load(session)
        published = self._mailbox.published
        stopped = published.snapshot.stopped if published.snapshot else ""
        waits = self._waits()
        if waits is None:
            return QueuePage(entries=(), total=0, as_of=published.at, stopped=stopped)
        order = waits.in_order(session)
        entries = tuple(_entry(waits[job]) for job in order[offset : offset + limit])
        return QueuePage(entries=entries, total=len(order), as_of=published.at, stopped=stopped)

    def find(self, job: JobId) -> QueueEntry | None:
        """Return a job's place; None if it does not wait."""
        waits = self._waits()
        wait = None if waits is None else waits.get(job)
        return None if wait is None else _entry(wait)

    def explain(self, job: JobId) -> QueueEntry:
        """Return a waiting job's place and why it is there.

        Raises:
            NotFoundError: There is no such job.
            ConflictError: It does not wait.
        """
        record = self._state.jobs.load(job)
        entry = self.find(job)
        if entry is not None:
            return entry
        if record.phase in (Phase.CREATED, Phase.QUEUED):
            raise ClusterError(
                f"Job {job} has just been submitted; no cycle has looked at it yet.",
                hint="Ask again in a moment.",
            )
        raise ConflictError(f"Job {job} does not wait: it is {record.phase.value}.")

    def would_start(self, question: StartQuestion) -> StartAnswer:
        """Return whether a request would start now, else when; nothing is queued.

        Raises:
            NotFoundError: There is no session of the name given.
            ClusterError: The reconciler did not answer in time.
        """
        session = self._sessions.session_for(question.session, question.user.name)
        job_type = JobType.EXECUTE if question.num_systems else JobType.COMPILE
        wanted = question.requirements or default_requirements(
            job_type, question.num_systems, self._model.facts.description
        )
        pending = PendingJob(
            id=new_job_id(),
            type=job_type,
            sequence=_LAST,
            priority=question.priority,
            num_systems=question.num_systems,
            num_node_groups=wanted.num_node_groups,
            group_kind=wanted.group_kind,
            pods=wanted.pods,
            session=session,
            user=account_user(question.user),
            program=wanted.program,
            submitted_seconds=self._clock.now().timestamp(),
            limit_seconds=question.limit_seconds or wanted.limit_seconds,
        )
        try:
            found = self._mailbox.would_start(pending).result(timeout=_TRY_SECONDS)
        except TimeoutError as error:
            raise ClusterError(
                f"The queue did not answer within {_TRY_SECONDS:g} seconds.", hint="Ask again."
            ) from error
        match found:
            case Admit(grant=grant):
                return StartAnswer(starts_now=True, systems=grant.systems)
            case Reject(error=refusal):
                return StartAnswer(starts_now=False, refusal=str(refusal))
            case Wait():
                return StartAnswer(starts_now=False, entry=_entry(found))

    def _waits(self) -> Waits | None:
        return self._mailbox.waits_at(self._clock.now().timestamp())


def _entry(wait: Wait) -> QueueEntry:
    start = wait.expected_start
    return QueueEntry(
        job=wait.job,
        position=wait.position + 1,
        kind=wait.kind,
        reason=wait.status,
        blocking=wait.blocking,
        behind=wait.behind,
        expected_start=dt.datetime.fromtimestamp(start.at_seconds, dt.UTC) if start else None,
        basis=start.basis if start else "",
        is_promised=start is not None and start.is_promised,
        run_seconds=wait.run_seconds if math.isfinite(wait.run_seconds) else None,
    )
