"""Turns a filter of jobs (of REST or csctl) into SQL: conditions, order and bounds of a query."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, not_, or_, select
from sqlalchemy.orm import InstrumentedAttribute

from appliance.core.cluster.jobs import Phase
from appliance.core.ids import ARRAY_LABEL
from appliance.core.queries.job_filter import JobFilter, JobOrder, JobSort
from appliance.core.queries.label_selector import LabelRequirement
from appliance.storage.schema.tables import GrantRow, JobRow, LabelRow

IS_UNFINISHED = JobRow.ended_at.is_(None)
"""Said so, and not by phases, for the sake of the index of the unfinished."""
_UNFINISHED = tuple(phase.value for phase in Phase if not phase.is_terminal)

_SORT_COLUMNS: Mapping[JobSort, InstrumentedAttribute[Any]] = {
    JobSort.PHASE: JobRow.phase,
    JobSort.TYPE: JobRow.type,
    JobSort.USER: JobRow.username,
    JobSort.PRIORITY: JobRow.priority,
    JobSort.SYSTEMS: JobRow.num_systems,
    JobSort.SUBMITTED: JobRow.sequence,
}

# `Any`: selects of this many columns have no closer type.
_Query = Select[Any]


def conditions(wanted: JobFilter) -> list[ColumnElement[bool]]:
    """Return the conditions of a filter; its order and its bounds aside."""
    found: list[ColumnElement[bool]] = []
    for column, value in (
        (JobRow.session, wanted.session),
        (JobRow.workflow, wanted.workflow),
        (JobRow.username, wanted.user),
        (JobRow.client_release, wanted.client_release),
    ):
        if value:
            found.append(column == value)
    if wanted.uid is not None:
        found.append(JobRow.uid == wanted.uid)
    if wanted.type is not None:
        found.append(JobRow.type == wanted.type.value)
    found += _of_phases(wanted)
    if wanted.created_after is not None:
        found.append(JobRow.created_at >= wanted.created_after)
    return found + _membership(wanted)


def page_of(query: _Query, wanted: JobFilter) -> _Query:
    """Return a query of the jobs that a filter lets pass, in its order and within its bounds."""
    query = _ordered(query.where(*conditions(wanted)), wanted)
    if wanted.offset:
        query = query.offset(wanted.offset)
    return query.limit(wanted.limit) if wanted.limit else query


def _of_phases(wanted: JobFilter) -> list[ColumnElement[bool]]:
    """Return the conditions of phases, in words that let the database take the best index.

    Jobs of most phases are few, and the index of phases finds them. Waiting ones are many, and are
    found in the order of the list if nothing but the phases that are left out is said of them.
    """
    phases = [phase.value for phase in wanted.phases]
    if not phases:
        return [] if wanted.with_finished else [IS_UNFINISHED]
    if Phase.QUEUED in phases and set(phases) <= set(_UNFINISHED):
        others = [phase for phase in _UNFINISHED if phase not in phases]
        return [IS_UNFINISHED, JobRow.phase.not_in(others)]
    return [JobRow.phase.in_(phases)]


def _membership(wanted: JobFilter) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    if wanted.system:
        held = select(GrantRow.job).where(GrantRow.system == wanted.system)
        found.append(JobRow.id.in_(held))
    found += map(_labelled, wanted.labels)
    return found + [_mentions(word) for word in wanted.text.split()]


def _labelled(wanted: LabelRequirement) -> ColumnElement[bool]:
    """Return whether a job's labels are as one part of a selector asks for.

    An array is a column of its own: a label of that name may be older than arrays.
    """
    if wanted.key == ARRAY_LABEL:
        array = JobRow.array_id
        has = array != "" if wanted.values is None else array.in_(wanted.values)
        return not_(has) if wanted.is_excluded else has
    tagged = select(LabelRow.job).where(LabelRow.key == wanted.key)
    if wanted.values is not None:
        tagged = tagged.where(LabelRow.value.in_(wanted.values))
    return JobRow.id.not_in(tagged) if wanted.is_excluded else JobRow.id.in_(tagged)


def _mentions(word: str) -> ColumnElement[bool]:
    """Return whether a word occurs in what a list shows of a job."""
    columns = (JobRow.id, JobRow.username, JobRow.type, JobRow.phase)
    label = LabelRow.key + "=" + LabelRow.value
    tagged = select(LabelRow.job).where(label.icontains(word, autoescape=True))
    return or_(
        *(column.icontains(word, autoescape=True) for column in columns), JobRow.id.in_(tagged)
    )


def _ordered(query: _Query, wanted: JobFilter) -> _Query:
    after = wanted.after
    if wanted.sort is not None:
        column = _SORT_COLUMNS[wanted.sort]
        chosen = column.desc() if wanted.descending else column.asc()
        return query.order_by(chosen, JobRow.sequence.desc())
    match wanted.order:
        case JobOrder.PRIORITY:
            if after is not None:
                query = query.where(
                    JobRow.priority >= after.priority,  # where the index begins
                    or_(
                        JobRow.priority > after.priority,
                        and_(JobRow.priority == after.priority, JobRow.sequence < after.sequence),
                    ),
                )
            return query.order_by(JobRow.priority, JobRow.sequence.desc())
        case JobOrder.REVERSED:
            if after is not None:
                query = query.where(
                    JobRow.priority <= after.priority,  # where the index begins
                    or_(
                        JobRow.priority < after.priority,
                        and_(JobRow.priority == after.priority, JobRow.sequence > after.sequence),
                    ),
                )
            return query.order_by(JobRow.priority.desc(), JobRow.sequence)
        case JobOrder.NEWEST:
            if after is not None:
                query = query.where(JobRow.sequence < after.sequence)
            return query.order_by(JobRow.sequence.desc())
        case JobOrder.OLDEST:
            if after is not None:
                query = query.where(JobRow.sequence > after.sequence)
            return query.order_by(JobRow.sequence)
