"""Maintenance workflows as a table: one row for each system."""

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass

from google.protobuf.timestamp_pb2 import Timestamp

from csctl.output.table import Column
from protos.csadm import csadm_pb2 as pb


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceRow:
    """One system of a workflow."""

    workflow: pb.SystemMaintenanceWorkflow
    job: pb.SystemMaintenanceJob


def rows(workflows: Iterable[pb.SystemMaintenanceWorkflow]) -> Iterable[MaintenanceRow]:
    """Yield the rows of workflows."""
    for workflow in workflows:
        for job in workflow.jobs:
            yield MaintenanceRow(workflow=workflow, job=job)


MAINTENANCE_COLUMNS: tuple[Column[MaintenanceRow], ...] = (
    Column(header="WORKFLOW", cell=lambda row: row.workflow.workflow_id),
    Column(header="TYPE", cell=lambda row: _short(row.job.workflow_type)),
    Column(header="SYSTEM", cell=lambda row: ",".join(row.job.systems)),
    Column(
        header="STATUS",
        cell=lambda row: pb.JobStatus.Name(row.job.status).removeprefix("JOB_STATUS_"),
    ),
    Column(header="FROM", cell=lambda row: _time(row.job.execution_time)),
    Column(header="TO", cell=lambda row: _time(row.job.completion_time)),
    Column(header="NOTES", cell=lambda row: row.job.notes),
)


def _short(kind: pb.SystemMaintenanceType.ValueType) -> str:
    name = pb.SystemMaintenanceType.Name(kind).removeprefix("SYSTEM_MAINTENANCE_TYPE_")
    return "planned" if name == "UNSPECIFIED" else name


def _time(stamp: Timestamp) -> str:
    return stamp.ToDatetime(tzinfo=dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
