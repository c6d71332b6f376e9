"""A job's record, its row, and the record that is read back."""

import datetime as dt
from dataclasses import fields
from types import SimpleNamespace

from appliance.core.cluster.jobs import JobType, Phase
from appliance.core.cluster.records import Holding, JobRecord, User
from appliance.core.cluster.requirements import Requirements
from appliance.core.ids import JobId, WorkflowId
from appliance.storage.queue.job_rows import record_of, row_of
from appliance.storage.schema.tables import JobRow, table_of

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
GIVEN = {
    "id": JobId("wsjob-a"),
    "type": JobType.DRIVER,
    "session": "lab",
    "workflow": WorkflowId("wflow-a"),
    "user": User(uid=7, gid=8, name="ada"),
    "priority": 7,
    "num_systems": 2,
    "workers_per_system": 3,
    "labels": {"team": "vision"},
    "sequence": 4,
    "phase": Phase.RUNNING,
    "systems": ("systemf0",),
    "requirements": Requirements(limit_seconds=5.0),
    "holding": Holding(node_groups=("group0",)),
    "verdict": {"phase": "FAILED"},
    "num_starts": 2,
    "created_at": NOON,
    "started_at": NOON + dt.timedelta(seconds=1),
    "ended_at": NOON + dt.timedelta(seconds=2),
}


def test_each_field_of_a_job_comes_back_from_its_row():
    texts = {each.name: f"its {each.name}" for each in fields(JobRecord)}
    record = JobRecord(**{**texts, **GIVEN})
    row = row_of(record)
    assert row.keys() <= set(table_of(JobRow).columns.keys())
    assert record_of(SimpleNamespace(**row), GIVEN["labels"], GIVEN["systems"]) == record


def test_each_column_of_a_job_is_written():
    record = JobRecord(**{**{each.name: "" for each in fields(JobRecord)}, **GIVEN})
    assert row_of(record).keys() == set(table_of(JobRow).columns.keys())
