"""The statements that change jobs and what belongs to them, for `Database.write`.

The ranks are those of a job's life: its row before what refers to it, and changes of the row in the
order in which a job goes through them.
"""

import datetime as dt
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import bindparam, delete, insert, update

from appliance.core.cluster.jobs import Phase
from appliance.core.cluster.records import EventRecord, Holding, JobRecord
from appliance.core.errors import ConflictError, NotFoundError
from appliance.core.ids import JobId
from appliance.storage.engine.writes import Row, Statement, Write
from appliance.storage.queue.job_rows import row_of
from appliance.storage.schema.tables import EventRow, GrantRow, JobRow, LabelRow, table_of

_Effect = Callable[[], None] | None


def unknown_job(job: str) -> NotFoundError:
    """Return the error that says so."""
    return NotFoundError(
        f"There is no job {job!r}.", hint="`csctl get jobs -a` lists the jobs of this cluster."
    )


_JOBS, _LABELS, _GRANTS, _EVENTS = map(table_of, (JobRow, LabelRow, GrantRow, EventRow))


def _is_unknown(write: Write) -> NotFoundError:
    return unknown_job(write.key)


def _is_elsewhere(write: Write) -> ConflictError:
    return ConflictError(f"Job {write.key} is not {write.rows[0]['of_phase']} any more.")


_NEW_JOB = Statement(rank=10, clause=insert(_JOBS))
_NEW_LABEL = Statement(rank=11, clause=insert(_LABELS))
_NO_GRANTS = Statement(rank=30, clause=delete(_GRANTS).where(_GRANTS.c.job == bindparam("of_job")))
_NEW_GRANT = Statement(rank=31, clause=insert(_GRANTS))
_NEW_EVENT = Statement(rank=60, clause=insert(_EVENTS))

_OF_JOB = update(_JOBS).where(_JOBS.c.id == bindparam("of_job"))
_CHANGES = {
    name: Statement(rank=rank, clause=_OF_JOB, complaint=_is_unknown)
    for rank, name in (
        (19, "held_by"),
        (20, "priority"),
        (21, "service_address"),
        (22, "artifact_dir"),
        (27, "verdict"),
        (28, "message"),
    )
}

_HOLDING = Statement(rank=18, clause=_OF_JOB, complaint=_is_unknown)

_OF_PHASE = _OF_JOB.where(_JOBS.c.phase == bindparam("of_phase"))
_START = Statement(
    rank=23,
    clause=_OF_PHASE.values(num_starts=_JOBS.c.num_starts + 1),
    complaint=_is_elsewhere,
)
_ENTER = {
    phase: Statement(rank=rank, clause=_OF_PHASE, complaint=_is_elsewhere)
    for rank, phase in (
        (24, Phase.INITIALIZING),
        (25, Phase.RUNNING),
        (26, Phase.FAILING),
        (29, Phase.SUCCEEDED),
        (29, Phase.FAILED),
        (29, Phase.CANCELLED),
        (29, Phase.QUEUED),
    )
}
_ENTER[Phase.SCHEDULED] = _START


def new_job(record: JobRecord, effect: _Effect) -> list[Write]:
    """Return the writes that store a new job with the events of its creation."""
    labels = [
        {"job": record.id, "key": key, "value": value} for key, value in record.labels.items()
    ]
    writes = [Write(statement=_NEW_JOB, key=record.id, rows=(row_of(record),), effect=effect)]
    if labels:
        writes.append(Write(statement=_NEW_LABEL, key=record.id, rows=labels))
    creation = (Phase.CREATED, Phase.QUEUED)
    writes.append(new_phase_events(record.id, creation, "", record.created_at))
    return writes


# `Any`: the value of a column.
def job_change(job: JobId, name: str, value: Any, effect: _Effect) -> Write:  # noqa: ANN401
    """Return the write that sets one column of a job."""
    return Write(
        statement=_CHANGES[name], key=job, rows=({"of_job": job, name: value},), effect=effect
    )


def job_holding(job: JobId, holding: Holding, started_at: dt.datetime, effect: _Effect) -> Write:
    """Return the write that adds to the grant of a running job."""
    row = {"of_job": job, "holding": holding.to_dict(), "started_at": started_at}
    return Write(statement=_HOLDING, key=job, rows=(row,), effect=effect)


def job_entry(job: JobId, current: Phase, new: Phase, values: Row, effect: _Effect) -> Write:
    """Return the write that moves a job from one phase to another."""
    row = {"of_job": job, "of_phase": current.value, "phase": new.value, **values}
    return Write(statement=_ENTER[new], key=job, rows=(row,), effect=effect)


def no_grants(job: JobId) -> Write:
    """Return the write that removes a job's systems."""
    return Write(statement=_NO_GRANTS, key=f"grants of {job}", rows=({"of_job": job},))


def new_grants(job: JobId, systems: tuple[str, ...]) -> Write:
    """Return the write that grants a job systems."""
    rows = [
        {"job": job, "system": name, "position": position} for position, name in enumerate(systems)
    ]
    return Write(statement=_NEW_GRANT, key=f"grants of {job}", rows=rows)


def new_event(event: EventRecord) -> Write:
    """Return the write that stores an event."""
    row = {
        "job": event.job,
        "at": event.at,
        "reason": event.reason,
        "message": event.message,
        "subject": event.subject,
        "is_warning": event.is_warning,
        "phase": event.phase.value if event.phase else None,
    }
    return Write(statement=_NEW_EVENT, key="", rows=(row,))


def new_phase_events(job: JobId, phases: Sequence[Phase], message: str, now: dt.datetime) -> Write:
    """Return the write that stores an event for each phase; the last has the message."""
    rows = [_phase_event(job, phase, "", now) for phase in phases[:-1]]
    rows.append(_phase_event(job, phases[-1], message, now))
    return Write(statement=_NEW_EVENT, key="", rows=rows)


def _phase_event(job: JobId, phase: Phase, message: str, now: dt.datetime) -> Row:
    return {
        "job": job,
        "at": now,
        "reason": _REASONS[phase],
        "message": message,
        "subject": job,
        "is_warning": phase in (Phase.FAILED, Phase.FAILING),
        "phase": phase.value,
    }


_REASONS = {phase: f"Job{phase.value.capitalize()}" for phase in Phase}
