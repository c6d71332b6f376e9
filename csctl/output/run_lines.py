"""Runs as tables: the list, and what one consists of."""

import datetime as dt
import shlex
from collections.abc import Iterator

from google.protobuf.timestamp_pb2 import Timestamp

from csctl.output.age import is_set, seconds_between, short_span
from csctl.output.jobs import label_text
from csctl.output.table import NOT_APPLICABLE, Column
from protos.wsc.v1.runs_pb2 import Run, RunJob

_SHORT_COMMIT = 12
_RATE = "samples per second"


def run_columns(now: dt.datetime) -> tuple[Column[Run], ...]:
    """Return the columns of `get runs`; ages and durations count up to `now`."""
    return (
        Column(header="SESSION", cell=lambda run: run.session),
        Column(header="NAME", cell=lambda run: run.name or NOT_APPLICABLE),
        Column(header="RUN", cell=lambda run: run.run_id),
        Column(header="PHASE", cell=lambda run: run.phase),
        Column(header="JOBS", cell=lambda run: str(len(run.jobs))),
        Column(header="SCRIPT", cell=lambda run: run.script or NOT_APPLICABLE),
        Column(header="STEP", cell=step_text),
        Column(header="LAST", cell=lambda run: last_text(run) or NOT_APPLICABLE),
        Column(header="AGE", cell=lambda run: _span(run.created, None, now)),
        Column(header="DURATION", cell=lambda run: _span(run.started, run.ended, now)),
        Column(header="USER", cell=lambda run: run.user or str(run.uid)),
        Column(header="LABELS", cell=lambda run: label_text(run.labels)),
        Column(header="KIND", cell=lambda run: run.kind, is_wide=True),
        Column(header="COMMIT", cell=lambda run: commit_text(run) or NOT_APPLICABLE, is_wide=True),
        Column(header="DIRECTORY", cell=lambda run: run.work_dir or NOT_APPLICABLE, is_wide=True),
        Column(header="REASON", cell=lambda run: run.message, is_wide=True),
    )


def member_columns(now: dt.datetime) -> tuple[Column[RunJob], ...]:
    """Return the columns of a run's jobs."""
    return (
        Column(header="JOB", cell=lambda job: job.job),
        Column(header="TYPE", cell=lambda job: job.type),
        Column(header="PHASE", cell=lambda job: job.phase),
        Column(header="SYSTEMS", cell=lambda job: ",".join(job.systems) or NOT_APPLICABLE),
        Column(header="AGE", cell=lambda job: _span(job.created, None, now)),
        Column(header="DURATION", cell=lambda job: _span(job.started, job.ended, now)),
        Column(header="REASON", cell=lambda job: job.message),
    )


def run_facts(run: Run) -> Iterator[str]:
    """Yield what is known of a run beside its rows, a line for each fact."""
    for title, value in (
        ("Command", _command(run)),
        ("Directory", run.work_dir),
        ("Commit", commit_text(run)),
        ("Environment", run.environment_digest),
        ("Client", run.client_release),
        ("Array", f"{run.array}, index {run.index}" if run.array else ""),
        ("Values", ", ".join(f"{name} {value:g}" for name, value in _values(run))),
        ("Page", run.dashboard),
        ("Reason", run.message),
    ):
        if value:
            yield f"{title}: {value}"


def _command(run: Run) -> str:
    if run.kind == "attached":
        return "not known: clients in terminals do not tell theirs"
    return shlex.join(run.argv)


def step_text(run: Run) -> str:
    """Return how far the newest session of a run is, as in `20 of 40`."""
    if not run.step:
        return NOT_APPLICABLE
    return f"{run.step} of {run.num_steps}" if run.num_steps else str(run.step)


def last_text(run: Run) -> str:
    """Return the newest value of the output that tells most: a loss, if there is one."""
    return next((f"{name} {value:g}" for name, value in _values(run)), "")


def commit_text(run: Run) -> str:
    """Return the commit of a run, and whether files differed from it; empty if it has none."""
    dirty = " (changed)" if run.is_dirty else ""
    return f"{run.git_commit[:_SHORT_COMMIT]}{dirty}" if run.git_commit else ""


def _values(run: Run) -> list[tuple[str, float]]:
    """Return the newest values of a run, losses first; the rate of training is none of them."""
    named = [(name, value) for name, value in run.last_values.items() if name != _RATE]
    return sorted(named, key=lambda each: ("loss" not in each[0], each[0]))


def _span(start: Timestamp, end: Timestamp | None, now: dt.datetime) -> str:
    if not is_set(start):
        return NOT_APPLICABLE
    until = end.ToDatetime(tzinfo=dt.UTC) if end is not None and is_set(end) else now
    return short_span(seconds_between(start, until))
