"""Runs over REST: scripts, each with all jobs that it has submitted."""

import datetime as dt
from typing import Annotated

from fastapi import Depends, Path, Query, Request
from pydantic import BaseModel

from appliance.api.cursors import MAX_CURSOR, job_cursor, job_place
from appliance.api.entry import Entry, caller_of, enter, entry_router
from appliance.api.job_routes.job_schemas import JobSummary
from appliance.api.job_routes.jobs import MAX_LIMIT, Name
from appliance.api.problems import problems
from appliance.api.services import Services
from appliance.core.access_rules import rules
from appliance.core.cluster.jobs import Phase
from appliance.core.cluster.records import MAX_LABELS
from appliance.core.ids import WorkflowId
from appliance.core.queries.job_filter import JobFilter, JobOrder
from appliance.core.queries.label_selector import parse_selector
from appliance.core.queries.run_line import RunKind, RunLine
from appliance.management.jobs.checkpoint_files import Checkpoint
from appliance.management.jobs.job_service import cancelled_by
from appliance.management.jobs.run_service import RunProgressLine, may_read

router = entry_router("runs")

_RunPath = Annotated[str, Path(alias="run_id", min_length=1, max_length=64)]


class Run(BaseModel):
    """A script with all jobs that it has submitted; its id is that of its workflow."""

    id: str
    name: str
    """Its label `name`, and its index behind it if it belongs to an array; may be empty."""
    kind: RunKind
    """Who runs its script: a driver, or a client in somebody's terminal."""
    session: str
    user: str
    uid: int
    labels: dict[str, str]
    array: str
    """The array of detached runs that it belongs to; empty if it belongs to none."""
    index: int | None
    """Its number there."""
    phase: Phase
    """Of its driver; without one of the job that runs, that waits, or that was the last, but
    RUNNING between jobs while its client lives."""
    message: str
    """Reason of the phase."""
    argv: list[str]
    """What it runs. Empty for an attached run, and, as the next five fields are, for callers who
    may not read its logs."""
    script: str
    """The word that tells most of that."""
    work_dir: str
    environment_digest: str
    """Tells its environment from another one."""
    git_commit: str
    """Of its directory when it was submitted; empty if that is not known."""
    is_dirty: bool | None
    """Whether files that git tracks differed from it; null if that is not known."""
    client_release: str
    jobs: list[JobSummary]
    """All its jobs, oldest first."""
    log_job: str
    """The job whose main log is the run's."""
    step: int
    """The last step that its newest session has told of; 0 if none."""
    num_steps: int
    """Steps of the session that runs; 0 while none does."""
    last_values: dict[str, float]
    """The newest finite value of each output of its program, by its words."""
    created_at: dt.datetime
    started_at: dt.datetime | None
    ended_at: dt.datetime | None
    """Null while one of its jobs has not ended, or its client lives."""

    @classmethod
    def of(cls, run: RunLine, progress: RunProgressLine, *, is_readable: bool) -> "Run":
        """Return a run.

        Args:
            progress: How far it is.
            is_readable: Whether the caller may see what it executes, and where.
        """
        return cls(
            id=run.id,
            name=run.name,
            kind=run.kind,
            session=run.first.session,
            user=run.user.name,
            uid=run.user.uid,
            labels=dict(run.first.labels),
            array=run.array,
            index=run.index,
            phase=run.phase,
            message=run.message,
            argv=list(run.argv) if is_readable else [],
            script=run.script if is_readable else "",
            work_dir=run.work_dir if is_readable else "",
            environment_digest=run.environment_digest if is_readable else "",
            git_commit=run.commit if is_readable else "",
            is_dirty=run.is_dirty if is_readable else None,
            client_release=run.client_release,
            jobs=[JobSummary.of(job) for job in run.jobs],
            log_job=run.log_job,
            step=progress.step,
            num_steps=progress.num_steps,
            last_values=dict(progress.last_values),
            created_at=run.first.created_at,
            started_at=run.started_at,
            ended_at=run.ended_at,
        )


class CheckpointFileView(BaseModel):
    """A file that was written while a run's client fetched a state."""

    path: str
    num_bytes: int
    written_at: dt.datetime


class CheckpointView(BaseModel):
    """A state that a run's client has fetched."""

    job_id: str
    at: dt.datetime
    """When the client had left it."""
    state: str
    """Its session, step, number of tensors and their size, in words."""
    files: list[CheckpointFileView]
    """The client's file, if it was found. Several if other runs wrote in the same place then; none
    if it lies elsewhere, or has been removed or written again."""

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> "CheckpointView":
        """Return a checkpoint."""
        return cls(
            job_id=checkpoint.job,
            at=checkpoint.at,
            state=checkpoint.state,
            files=[
                CheckpointFileView(
                    path=file.path, num_bytes=file.num_bytes, written_at=file.written_at
                )
                for file in checkpoint.files
            ],
        )


class CheckpointList(BaseModel):
    """The checkpoints of a run, oldest first."""

    items: list[CheckpointView]
    places: str
    """Where their files were looked for, or why they were not."""


class RunPage(BaseModel):
    """One page of a list of runs."""

    items: list[Run]
    next: str | None
    """Cursor of the next page; null on the last one."""
    total: int | None
    """How many runs there are on all pages; null unless it was asked for."""


def _filter(
    *,
    session: Name = "",
    user: Name = "",
    mine: bool = False,
    all_states: bool = False,
    label: Annotated[list[str] | None, Query(max_length=MAX_LABELS)] = None,
    text: Name = "",
    cursor: Annotated[str, Query(max_length=MAX_CURSOR)] = "",
    limit: Annotated[int, Query(ge=1, le=MAX_LIMIT)] = 100,
    request: Request,
) -> JobFilter:
    """Read a request for a list of runs."""
    return JobFilter(
        session=session,
        user=user,
        uid=caller_of(request).user.uid if mine else None,
        with_finished=all_states,
        labels=parse_selector(label or ()),
        text=text,
        after=job_place(cursor, JobOrder.NEWEST) if cursor else None,
        limit=limit,
    )


@router.get("/runs", responses=problems(400))
def list_runs(
    wanted: Annotated[JobFilter, Depends(_filter)],
    entry: Annotated[Entry, enter(rules.READ)],
    services: Services,
    *,
    with_total: bool = False,
) -> RunPage:
    """Return runs, newest first, a page at a time; finished ones only when asked for.

    `label`, a selector as for jobs, `user` and `text` are about the first job of each, which is a
    detached run's driver.
    """
    runs = services.runs.page(wanted)
    progress = services.runs.progress(runs)
    last = runs[-1].first if len(runs) == wanted.limit else None
    return RunPage(
        items=[_run(run, progress.get(run.id), entry) for run in runs],
        next=job_cursor(last, JobOrder.NEWEST) if last else None,
        total=services.runs.count(wanted) if with_total else None,
    )


@router.get("/runs/{run_id}", responses=problems(404))
def get_run(
    run_id: _RunPath, entry: Annotated[Entry, enter(rules.READ_JOB)], services: Services
) -> Run:
    """Return a run with its jobs."""
    run = services.runs.load(WorkflowId(run_id))
    return _run(run, services.runs.progress([run]).get(run.id), entry)


@router.get("/runs/{run_id}/checkpoints", responses=problems(404))
def list_checkpoints(
    run_id: _RunPath, entry: Annotated[Entry, enter(rules.FIND_CHECKPOINTS)], services: Services
) -> CheckpointList:
    """Return a run's checkpoints, with the files on this machine that were written for them."""
    run = services.runs.load(WorkflowId(run_id))
    found, places = services.runs.checkpoints(run, with_files=may_read(entry.caller, run))
    return CheckpointList(items=[CheckpointView.of(each) for each in found], places=places)


@router.post("/runs/{run_id}/cancel", status_code=202, responses=problems(403, 404, 409))
def cancel_run(
    run_id: _RunPath, entry: Annotated[Entry, enter(rules.END_RUN)], services: Services
) -> Run:
    """Cancel what has not ended of a run; the stream tells when it has."""
    entry.describe("cancel")
    why = cancelled_by(entry.caller.user.name, "over REST")
    services.runs.cancel(WorkflowId(run_id), why)
    run = services.runs.load(WorkflowId(run_id))
    return _run(run, services.runs.progress([run]).get(run.id), entry)


def _run(run: RunLine, progress: RunProgressLine | None, entry: Entry) -> Run:
    is_readable = may_read(entry.caller, run)
    return Run.of(run, progress or RunProgressLine(), is_readable=is_readable)
