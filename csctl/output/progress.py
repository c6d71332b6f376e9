"""How far a job is, and the sessions that it has run."""

import datetime as dt
from collections.abc import Mapping

from appliance.core.cluster.run import progress_words
from appliance.core.quantities import duration
from csctl.output.age import is_set, seconds_between, short_span
from csctl.output.table import NOT_APPLICABLE, Column
from protos.wsc.v1.events_pb2 import RunSession


def progress_text(properties: Mapping[str, str]) -> str:
    """Return `step 375 of 600, 2 min to go` from a job's properties; empty if they do not say."""
    completed, planned = properties.get("steps_completed"), properties.get("steps_planned")
    if completed is None or planned is None:
        return ""
    left = properties.get("remaining_seconds")
    return progress_words(int(completed), int(planned), None if left is None else float(left))


def progress_line(properties: Mapping[str, str]) -> str:
    """Return how far a job is, with its session if it has run several; empty if nothing says."""
    words = progress_text(properties)
    if not words:
        return ""
    number, of = properties.get("run_session", "1"), properties.get("num_run_sessions", "1")
    if of == "1":
        return f"Progress: {words}"
    return f"Progress: session {number} of {of} so far: {words} (--session N shows each)"


def session_columns(now: dt.datetime) -> tuple[Column[RunSession], ...]:
    """Return the columns of a job's sessions; durations count up to `now`."""
    return (
        Column(header="RUN-SESSION", cell=lambda each: str(each.session)),
        Column(header="KIND", cell=lambda each: "train" if each.is_training else "evaluate"),
        Column(header="PROGRESS", cell=_progress),
        Column(header="STEP-TIME", cell=_step_time),
        Column(header="DURATION", cell=lambda each: _duration(each, now)),
    )


def _progress(session: RunSession) -> str:
    return progress_words(session.completed_steps, session.num_steps, None)


def _step_time(session: RunSession) -> str:
    return duration(session.step_seconds) if session.step_seconds else NOT_APPLICABLE


def _duration(session: RunSession, now: dt.datetime) -> str:
    end = session.ended.ToDatetime(tzinfo=dt.UTC) if is_set(session.ended) else now
    return short_span(seconds_between(session.started, end))
