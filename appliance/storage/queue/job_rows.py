"""A job's record and its row: what they call alike goes over by name."""

from collections.abc import Mapping
from dataclasses import fields
from operator import attrgetter
from typing import Any

from appliance.core.cluster.jobs import JobType, Phase
from appliance.core.cluster.records import Holding, JobRecord, User
from appliance.core.cluster.requirements import Requirements
from appliance.storage.schema.tables import JobRow, table_of

_CODED = ("type", "phase", "requirements", "holding")
"""Fields whose columns have their name and another form of the value."""

_ALIKE = tuple(
    field.name
    for field in fields(JobRecord)
    if field.name in table_of(JobRow).columns and field.name not in _CODED
)
_values_of = attrgetter(*_ALIKE)


# `Any`: values of columns.
def row_of(record: JobRecord) -> dict[str, Any]:
    """Return the row of a job; its labels and systems have rows of their own."""
    user = record.user
    row = dict(zip(_ALIKE, _values_of(record), strict=True))
    row["type"] = record.type.value
    row["phase"] = record.phase.value
    row["requirements"] = record.requirements.to_dict()
    row["holding"] = record.holding.to_dict()
    row["uid"], row["gid"], row["username"] = user.uid, user.gid, user.name
    row["array_id"] = record.array
    return row


# `Any`: a `JobRow`, or a row of its columns.
def record_of(
    row: Any,  # noqa: ANN401
    labels: Mapping[str, str],
    systems: tuple[str, ...],
) -> JobRecord:
    """Return the record of a row.

    Args:
        labels: The job's labels.
    """
    return JobRecord(
        **dict(zip(_ALIKE, _values_of(row), strict=True)),
        type=JobType(row.type),
        phase=Phase(row.phase),
        requirements=Requirements.from_dict(row.requirements),
        holding=Holding.from_dict(row.holding),
        user=User(uid=row.uid, gid=row.gid, name=row.username),
        array=row.array_id,
        labels=labels,
        systems=systems,
    )
