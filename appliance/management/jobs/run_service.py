"""Questions about runs: which there are, which one a name means, and how far each is."""

import datetime as dt
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from appliance.core.cluster.access import Action, Principal, Target, refusal
from appliance.core.cluster.records import CHECKPOINT_EVENT, User
from appliance.core.cluster.run import Point, output_words
from appliance.core.errors import ConflictError, NotFoundError
from appliance.core.ids import JOB_PREFIX, WORKFLOW_PREFIX, JobId, WorkflowId
from appliance.core.queries.job_filter import JobFilter, JobLine
from appliance.core.queries.label_selector import equal_to
from appliance.core.queries.run_line import NAME_LABEL, RunLine
from appliance.management.jobs import checkpoint_files
from appliance.management.jobs.checkpoint_files import Checkpoint
from appliance.management.jobs.job_service import JobService
from appliance.management.store.state import State

_MOST_NAMED = 5
_OUR_IDS = (JOB_PREFIX, WORKFLOW_PREFIX)
_NUM_REMEMBERED = 8192
"""Jobs that have ended whose last values are remembered."""
_LAST_REPORTS = dt.timedelta(minutes=1)
"""So long after its end a job's coordinator may still have told of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgressLine:
    """How far a run is.

    Attributes:
        step: The last step of its newest session that it has told of; 0 if none.
        num_steps: Steps of the session that runs; 0 while none does.
        last_values: The newest finite value of each output of its program, by its words.
    """

    step: int = 0
    num_steps: int = 0
    last_values: Mapping[str, float] = field(default_factory=dict)


class RunService:
    """Answers questions about runs.

    Args:
        state: The appliance's database.
        jobs: The jobs, and how far they are.
        dashboard_root: URL below which runs have their pages.
    """

    def __init__(self, state: State, jobs: JobService, dashboard_root: str) -> None:
        self._state = state
        self._jobs = jobs
        self._dashboard_root = dashboard_root
        self._lock = threading.Lock()
        self._ended: OrderedDict[JobId, Mapping[str, Point]] = OrderedDict()

    def page(self, wanted: JobFilter) -> Sequence[RunLine]:
        """Return the runs of one page, newest first."""
        return [self._explained(run) for run in self._state.runs.page(wanted)]

    def count(self, wanted: JobFilter) -> int:
        """Return how many runs there are on all pages together."""
        return self._state.runs.count(wanted)

    def load(self, run: WorkflowId) -> RunLine:
        """Return a run by its id; raises `NotFoundError`."""
        found = self._state.runs.find(run)
        if found is None:
            raise _unknown(run, "")
        return self._explained(found)

    def _explained(self, run: RunLine) -> RunLine:
        """Return a run whose waiting jobs say what they wait for."""
        jobs = [job if job.phase.is_terminal else self._with_wait(job) for job in run.jobs]
        return replace(run, jobs=jobs)

    def _with_wait(self, job: JobLine) -> JobLine:
        wait = self._jobs.wait_of(job.id)
        return job if wait is None else replace(job, message=wait.reason)

    def resolve(self, name: str, *, session: str, session_of_names: str, asker: User) -> RunLine:
        """Return the run that its id, that of one of its jobs, or a name means.

        A name is that of the asker's run, before that of somebody else's: of the unfinished one,
        which must be the only one, else of the newest.

        Args:
            name: As a person writes it.
            session: Where it must be; empty for anywhere.
            session_of_names: Where a name is looked for if `session` is empty; may be empty, too.
            asker: Who writes it.

        Raises:
            NotFoundError: There is no such run in that session.
            ConflictError: Several unfinished runs have that name.
        """
        where, by_id = session or session_of_names, self._by_id(name, session)
        if by_id is not None and (name.startswith(_OUR_IDS) or by_id.first.session == where):
            return self._explained(by_id)
        if found := self._state.runs.named(name, where):
            return self._explained(choose(name, found, asker))
        if by_id is not None:
            return self._explained(by_id)
        raise self._not_found(name, where)

    def _by_id(self, name: str, session: str) -> RunLine | None:
        """Return the run of that id, or the one that a job of that id belongs to, in a session."""
        job = self._jobs.find(JobId(name))  # Kubernetes may have called it anything
        found = self._state.runs.find(WorkflowId(name) if job is None else job.workflow)
        return found if found is not None and session in ("", found.first.session) else None

    def _not_found(self, name: str, session: str) -> NotFoundError:
        """Return the refusal of a name; one of an array says how its runs are called."""
        wanted = JobFilter(
            session=session, labels=equal_to({NAME_LABEL: name}), with_finished=True, limit=1
        )
        newest = next(iter(self._state.runs.page(wanted)), None)
        if newest is None or not newest.array:
            return _unknown(name, session)
        return NotFoundError(
            f"There is no run '{name}', but an array of that name, {newest.array}.",
            hint=f"Name the array, or one of its runs, as in {newest.name}.",
        )

    def progress(self, runs: Sequence[RunLine]) -> Mapping[WorkflowId, RunProgressLine]:
        """Return how far runs are, by their ids."""
        newest = {run.id: run.trains[-1] for run in runs if run.trains}
        points = self._latest(list(newest.values()))
        return {run: self._progress(job.id, points[job.id]) for run, job in newest.items()}

    def checkpoints(self, run: RunLine, *, with_files: bool) -> tuple[Sequence[Checkpoint], str]:
        """Return the states that a run's client has fetched, and where their files were looked for.

        Args:
            with_files: Whether to look for them at all; else no path is told.
        """
        of_jobs = [event for job in run.trains for event in self._jobs.events(job.id)]
        events = sorted(of_jobs, key=lambda event: event.at)
        since = run.started_at or run.first.created_at
        if not with_files:
            why = "Only those who may read the run's logs see where the files are."
            return checkpoint_files.checkpoints(events, (), since), why
        places = checkpoint_files.places(run)
        is_any = any(event.reason == CHECKPOINT_EVENT for event in events)
        files = checkpoint_files.find_files(places.directories, since) if is_any else ()
        return checkpoint_files.checkpoints(events, files, since), places.explanation

    def _latest(self, jobs: Sequence[JobLine]) -> Mapping[JobId, Mapping[str, Point]]:
        """Return the newest points of jobs; of those that have ended from memory, if it has them.

        The database looks at every point of a job for them.
        """
        with self._lock:
            found = {job.id: self._ended[job.id] for job in jobs if job.id in self._ended}
        asked = [job for job in jobs if job.id not in found]
        read = self._state.series.latest([job.id for job in asked]) if asked else {}
        found |= {job.id: read.get(job.id, {}) for job in asked}
        settled = self._state.clock.now() - _LAST_REPORTS
        with self._lock:
            for job in asked:
                if job.ended_at is not None and job.ended_at < settled:
                    self._ended[job.id] = found[job.id]
            while len(self._ended) > _NUM_REMEMBERED:
                self._ended.popitem(last=False)
        return found

    def dashboard(self, run: WorkflowId) -> str:
        """Return the address of a run's page."""
        return f"{self._dashboard_root}/runs/{run}"

    def cancel(self, run: WorkflowId, why: str) -> None:
        """Cancel what has not ended of a run.

        Raises:
            NotFoundError: There is no such run.
            ConflictError: It has ended already, or its script alone lives, in a terminal.
        """
        line = self.load(run)
        if line.is_between_jobs:
            raise ConflictError(
                f"Run {run} has no job now; {line.message}.", hint="End it in its terminal."
            )
        if not line.unfinished:
            raise ConflictError(f"Run {run} is {line.phase.value} already.")
        for job in line.unfinished:
            self._jobs.cancel(job, why)

    def _progress(self, job: JobId, points: Mapping[str, Point]) -> RunProgressLine:
        running = self._jobs.run_sessions.progress(job)
        session = max((point.session for point in points.values()), default=0)
        steps = [point.step for point in points.values() if point.session == session]
        return RunProgressLine(
            step=max(steps, default=0),
            num_steps=running.num_steps if running else 0,
            last_values={
                output_words(name): point.value
                for name, point in sorted(points.items())
                if point.value is not None
            },
        )


def choose(name: str, found: Sequence[RunLine], asker: User) -> RunLine:
    """Return which of some runs of one name is meant; see `RunService.resolve`.

    Args:
        found: The runs, newest first; at least one.
        asker: Who has written the name.
    """
    own = [run for run in found if run.user.uid == asker.uid] or found
    live = [run for run in own if not run.is_over]
    if len(live) > 1:
        named = ", ".join(run.id for run in live[:_MOST_NAMED])
        more = f" and {len(live) - _MOST_NAMED} more" if len(live) > _MOST_NAMED else ""
        raise ConflictError(
            f"{len(live)} unfinished runs are called '{name}': {named}{more}.",
            hint="Name one by its id.",
        )
    return live[0] if live else own[0]


def may_read(principal: Principal, run: RunLine) -> bool:
    """Whether somebody may see what a run executes, and where: who may read its logs."""
    target = Target(kind="job", name=run.first.id, owner=run.user, session=run.first.session)
    return refusal(principal, Action.READ_LOGS, target) is None


def _unknown(name: str, session: str) -> NotFoundError:
    where = f" in session {session}" if session else ""
    return NotFoundError(
        f"There is no run '{name}'{where}.", hint="`csctl get runs -a` lists the runs of a session."
    )
