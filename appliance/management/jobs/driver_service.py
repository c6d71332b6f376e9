"""Detached runs: accepts drivers, and recognises calls of their scripts."""

import asyncio
import logging
import os
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from concurrent.futures import Future
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from appliance.core.cluster.drivers import DriverSpec
from appliance.core.cluster.jobs import JobType, Phase
from appliance.core.cluster.records import JobRecord, NewJob, User
from appliance.core.dependencies import Dependency, Outcome, parse_conditions
from appliance.core.errors import (
    ClusterError,
    ConflictError,
    NotFoundError,
    UnschedulableError,
    UserError,
)
from appliance.core.ids import (
    ARRAY_LABEL,
    ARRAY_PREFIX,
    INDEX_LABEL,
    JobId,
    new_array_id,
    new_job_id,
    new_workflow_id,
)
from appliance.core.queries.job_filter import JobFilter
from appliance.core.queries.label_selector import equal_to
from appliance.core.quick_init import quick_init
from appliance.management.access.authorization import write_down
from appliance.management.access.driver_tokens import DriverTokens
from appliance.management.changes.watch import Awaited
from appliance.management.cluster.cluster_model import ClusterModel
from appliance.management.cluster.demands import driver_requirements
from appliance.management.cluster.session_service import SessionService
from appliance.management.jobs.program_check import ProgramCheck, check_program
from appliance.management.reconciler.mailbox import (
    Arrived,
    ArrivedTogether,
    Mailbox,
    wait_until_committed,
)
from appliance.management.reconciler.scheduling.predecessors import follow
from appliance.management.store.state import State
from appliance.storage.engine.database import ask
from appliance.wire.requests.submissions import check_job_labels

logger = logging.getLogger(__name__)

_MAX_AFTER = 256


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class DriverSubmission:
    """A detached run as it is asked for.

    Attributes:
        spec: What to run.
        session: Where the driver is listed; empty for the user's own.
        user: Whom it runs as.
        priority: From 0 to `MAX_PRIORITY`.
        labels: The user's tags.
        job: The id it gets; None draws one.
        after: Jobs, and arrays, whose end it waits for; see `parse_conditions`.
        limit_seconds: It is ended when it has run for so long; None sets no limit.
        held_by: What holds it from the beginning; empty for nothing.
        array: The array that it belongs to; empty for none.
        index: Its number there.
        array_limit: Of its array at most so many run at once; 0 sets no limit.
    """

    spec: DriverSpec
    session: str
    user: User
    priority: int
    labels: Mapping[str, str]
    job: JobId | None = None
    after: tuple[str, ...] = ()
    limit_seconds: float | None = None
    held_by: str = ""
    array: str = ""
    index: int = 0
    array_limit: int = 0

    def __post_init__(self) -> None:
        if self.array_limit < 0:
            raise UserError(f"A limit of {self.array_limit} runs at once is not possible.")

    @property
    def all_labels(self) -> dict[str, str]:
        """Its labels, checked, with those that show its place in an array."""
        own = {ARRAY_LABEL: self.array, INDEX_LABEL: str(self.index)} if self.array else {}
        return check_job_labels(self.labels) | own


class DriverService:
    """Accepts drivers, and recognises callers that are their scripts.

    Args:
        state: The appliance's database.
        mailbox: Leads to the reconciler, which runs them.
        tokens: Their tokens.
        sessions: Where they are listed.
        data_dir: Where jobs' directories are.
        model: What the cluster has.
        max_drivers: Unfinished drivers that one user may have.
        on_kubernetes: Whether pods run on a Kubernetes cluster: as any user, and elsewhere than
            here. Otherwise this machine has their programs.
    """

    def __init__(
        self,
        state: State,
        mailbox: Mailbox,
        tokens: DriverTokens,
        sessions: SessionService,
        data_dir: Path,
        *,
        model: ClusterModel,
        max_drivers: int,
        on_kubernetes: bool = False,
    ) -> None:
        self._is_local = not on_kubernetes
        self._programs = ProgramCheck()
        self._is_any_user = on_kubernetes or os.geteuid() == 0
        self._max_drivers = max_drivers
        self._sessions = sessions
        self._state = state
        self._mailbox = mailbox
        self._tokens = tokens
        self._data_dir = data_dir
        self._model = model
        self._lock = threading.Lock()
        self._arriving: defaultdict[int, set[JobId]] = defaultdict(set)

    async def submit_array(
        self, submission: DriverSubmission, indices: Sequence[int]
    ) -> tuple[str, Sequence[JobRecord]]:
        """Queue one driver for each index, all or none; see `submit`.

        Returns:
            The array's id, and its drivers by index.
        """
        if self._is_local:
            await self._programs.check(submission.spec)
        array, members = array_of(submission, indices, most=self._max_drivers)
        committed: asyncio.Future[Sequence[JobRecord]] = asyncio.get_running_loop().create_future()
        await asyncio.to_thread(self._hand_over_together, members, committed)
        return array, await committed

    def submit_array_and_wait(
        self, submission: DriverSubmission, indices: Sequence[int]
    ) -> tuple[str, Sequence[JobRecord]]:
        """Do the same from a thread that may wait; see `submit_array`."""
        if self._is_local:
            check_program(submission.spec)
        array, members = array_of(submission, indices, most=self._max_drivers)
        committed: Future[Sequence[JobRecord]] = Future()
        self._hand_over_together(members, committed)
        stored = wait_until_committed(
            committed, "The array was not committed", hint="See `get jobs`."
        )
        return array, stored

    async def submit(self, submission: DriverSubmission) -> JobRecord:
        """Queue a driver; it waits for memory where the cluster counts that, and for nothing else.

        It is committed when this returns.

        Raises:
            ConflictError: The user has too many drivers already.
            UserError: We may not run a program as that user, or a label is not valid.
            NotFoundError: There is no such session.
            UnschedulableError: The cluster has fewer systems than the script will ask for.
        """
        if self._is_local:
            await self._programs.check(submission.spec)
        committed: asyncio.Future[JobRecord] = asyncio.get_running_loop().create_future()
        await ask(self._state.database, self._hand_over, submission, committed)
        return await committed

    def submit_and_wait(self, submission: DriverSubmission) -> JobRecord:
        """Do the same from a thread that may wait; see `submit`.

        Raises:
            ClusterError: The commit takes too long; it may yet happen.
        """
        if self._is_local:
            check_program(submission.spec)
        committed: Future[JobRecord] = Future()
        self._hand_over(submission, committed)
        return wait_until_committed(
            committed, "The run was not committed", hint="See whether it is listed."
        )

    def _hand_over(self, submission: DriverSubmission, committed: Awaited) -> None:
        """Submit a driver to the reconciler's next turn."""
        new = self._new_job(submission)
        self._take_places([new.id], submission.user)
        store = partial(copy_context().run, self._store, new, submission.spec)
        self._mailbox.post(Arrived(job=new.id, store=store, committed=committed))

    def _hand_over_together(self, members: Sequence[DriverSubmission], committed: Awaited) -> None:
        """Submit drivers of one user to the reconciler's next turn, all or none."""
        news = [self._new_job(member) for member in members]
        self._take_places([new.id for new in news], members[0].user)
        pairs = list(zip(news, members, strict=True))
        store = partial(copy_context().run, self._store_all, pairs)
        self._mailbox.post(ArrivedTogether(store=store, committed=committed))

    def _store_all(self, members: Sequence[tuple[NewJob, DriverSubmission]]) -> list[JobRecord]:
        try:
            return [self._store(new, member.spec) for new, member in members]
        except BaseException:
            for new, _ in members:
                self._give_place(new.id, new.user)
            raise

    def _new_job(self, submission: DriverSubmission) -> NewJob:
        cluster = self._model.facts.description
        self._check_user(submission.user)
        _check_systems(submission.spec.num_systems, len(cluster.systems))
        if submission.array_limit and not submission.array:
            raise UserError(
                f"At most {submission.array_limit} at once is said of arrays; the run is of none.",
                hint="Give indices.",
            )
        job = submission.job or new_job_id()
        after = self._predecessors(submission)
        return NewJob(
            id=job,
            type=JobType.DRIVER,
            session=self._sessions.session_for(submission.session, submission.user.name),
            workflow=new_workflow_id(),
            user=submission.user,
            priority=submission.priority,
            labels=submission.all_labels,
            array=submission.array,
            work_dir=f"{self._data_dir}/jobs/{job}",
            client_workdir=submission.spec.work_dir,
            requirements=replace(
                driver_requirements(cluster),
                after=after,
                array_limit=submission.array_limit,
                limit_seconds=submission.limit_seconds,
            ),
            held_by=submission.held_by,
        )

    def _predecessors(self, submission: DriverSubmission) -> tuple[Dependency, ...]:
        """Return what a driver waits for that has yet to come.

        Raises:
            NotFoundError: There is no such job, or no such array of the user's.
            ConflictError: One has ended otherwise.
        """
        conditions = parse_conditions(submission.after)
        if len(conditions) > _MAX_AFTER:
            raise UserError(
                f"A run follows at most {_MAX_AFTER} jobs; {len(conditions)} are named."
            )
        return tuple(
            each
            for outcome, name in conditions
            for each in _open(outcome, self._named(name, submission.user))
        )

    def _named(self, text: str, user: User) -> Sequence[JobRecord]:
        """Return the job, or the runs of the array, that `NAME` or `SESSION/NAME` is."""
        session, _, name = text.rpartition("/")
        where = f" in session {session}" if session else ""
        if not name.startswith(ARRAY_PREFIX):
            job = self._state.jobs.load(JobId(name))
            if session not in ("", job.session):
                raise NotFoundError(f"There is no job {name}{where}.")
            return [job]
        wanted = JobFilter(
            session=session,
            uid=user.uid,
            labels=equal_to({ARRAY_LABEL: name}),
            with_finished=True,
        )
        found = self._state.jobs.list(wanted)
        if not found:
            raise NotFoundError(f"User {user.name or user.uid} has no array {name}{where}.")
        return sorted(found, key=lambda job: job.sequence)

    def _store(self, new: NewJob, spec: DriverSpec) -> JobRecord:
        """Write a driver with its script and its workflow; called within a batch.

        It has no directory yet: its launcher makes that, when it opens the log.
        """
        self._state.database.after_commit(lambda: self._give_place(new.id, new.user))
        try:
            record = self._state.jobs.create(new)
            self._state.workflows.ensure(
                new.workflow, session=new.session, user=new.user, first=record
            )
            self._state.driver_specs.keep(new.id, spec)
            write_down(new.id)
        except BaseException:
            self._give_place(new.id, new.user)
            raise
        logger.info("Driver submitted", extra={"job": new.id, "user": new.user.name})
        return record

    def running(self, token: str) -> JobRecord | None:
        """Return the driver whose script a caller is; None if it is no running driver's.

        Args:
            token: What the caller proves itself with; may be empty.
        """
        driver = self._tokens.find(token) if token else None
        record = self._state.jobs.find(driver) if driver else None
        return record if record and not record.phase.is_terminal else None

    def time_limit_of(self, driver: JobRecord) -> float | None:
        """Return the limit of each job of a driver's script; None if it has none."""
        return self._state.driver_specs.load(driver.id).time_limit_seconds or None

    def owner_of(self, token: str) -> User | None:
        """Return whose driver a token is of; None if it is no running driver's."""
        driver = self.running(token)
        return driver.user if driver else None

    def _check_user(self, user: User) -> None:
        if user.uid < 0:
            raise UserError("The call does not say whom to run the script as.")
        ours = os.geteuid()
        if not self._is_any_user and user.uid != ours:
            raise UserError(
                f"This appliance runs as uid {ours} and cannot run a script as uid {user.uid}.",
                hint="Submit as that user, or run the appliance as root.",
            )

    def check_place(self, user: User) -> None:
        """Raise `ConflictError` while a user may not have another driver."""
        with self._lock:
            self._check_count(user, self._counted(user), wanted=1)

    def _counted(self, user: User) -> Set[JobId]:
        """Return a user's drivers that have not ended, and those that are about to be committed."""
        arriving = self._arriving.get(user.uid, set())
        return self._state.jobs.unfinished_drivers(user.uid) | arriving

    def _check_count(self, user: User, counted: Set[JobId], *, wanted: int) -> None:
        count = len(counted)
        if count + wanted > self._max_drivers:
            more = f", and {wanted} more are asked for" if wanted > 1 else ""
            raise ConflictError(
                f"User {user.name or user.uid} has {count} unfinished drivers{more}; the most "
                f"is {self._max_drivers}.",
                hint="Wait for one, or cancel one.",
            )

    def _take_places(self, jobs: Sequence[JobId], user: User) -> None:
        """Count drivers that are about to be committed, or refuse all if they are too many."""
        with self._lock:
            counted = self._counted(user)
            for job in counted & set(jobs):
                raise ClusterError(
                    f"Run {job} is being taken in already.", hint="Look at it, and wait."
                )
            self._check_count(user, counted, wanted=len(jobs))
            self._arriving[user.uid].update(jobs)

    def _give_place(self, job: JobId, user: User) -> None:
        """Stop counting a driver that is committed, and counted as such, or never will be."""
        with self._lock:
            mine = self._arriving[user.uid]
            mine.discard(job)
            if not mine:
                del self._arriving[user.uid]


def _open(outcome: Outcome, jobs: Sequence[JobRecord]) -> Sequence[Dependency]:
    """Return what has yet to come of jobs that are to end so."""
    wanted = Dependency(jobs=tuple(job.id for job in jobs), outcome=outcome)
    found = follow([wanted], {job.id: job.phase for job in jobs})
    if not found.problem:
        return found.open
    failed = [job for job in jobs if job.phase is not Phase.SUCCEEDED and job.phase.is_terminal]
    job = (failed or jobs)[0]
    what = "failure" if outcome is Outcome.FAILURE else "success"
    raise ConflictError(
        f"Job {job.id} is {job.phase.value}; nothing can start after its {what}.",
        hint="Run it again, and name the new job.",
    )


def array_of(
    submission: DriverSubmission, indices: Sequence[int], *, most: int
) -> tuple[str, Sequence[DriverSubmission]]:
    """Return an array's id and its runs, each with its index in its environment.

    Raises:
        UserError: An index is negative, comes twice, or there are none or too many.
    """
    if not 0 < len(indices) <= most:
        raise UserError(
            f"An array of {len(indices)} runs is not possible.",
            hint=f"It has 1 to {most}: as many as a user may have unfinished.",
        )
    if len(set(indices)) < len(indices) or not all(0 <= index < 10**9 for index in indices):
        raise UserError("The indices of an array are different numbers from 0 to 999999999.")
    array, size = new_array_id(), len(indices)
    members = []
    for index in indices:
        told = {"WSC_ARRAY": array, "WSC_ARRAY_INDEX": str(index), "WSC_ARRAY_SIZE": str(size)}
        spec = replace(submission.spec, environment={**submission.spec.environment, **told})
        member = replace(submission, spec=spec, array=array, index=index, job=new_job_id())
        members.append(member)
    return array, members


def _check_systems(wanted: int, there: int) -> None:
    if wanted > there:
        raise UnschedulableError(
            f"The run asks for {wanted} systems; the cluster has {there}.",
            hint="Ask for fewer.",
        )
