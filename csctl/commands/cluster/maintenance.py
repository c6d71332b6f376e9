"""`csctl system-maintenance`: systems under maintenance, draining, or unhealthy."""

import datetime as dt
from enum import StrEnum
from functools import partial
from typing import Annotated

from appliance.core.errors import UserError
from csctl.command_line.flags import OutputOption, command, new_group
from csctl.command_line.invocation import Invocation
from csctl.command_line.params import argument, option
from csctl.output.documents.output_formats import OutputFormat
from csctl.output.maintenance import MAINTENANCE_COLUMNS, rows
from csctl.output.table import render
from protos.csadm import csadm_pb2 as pb
from protos.csadm.csadm_pb2_grpc import CsAdmV1Stub
from protos.wsc.v1.maintenance_pb2 import (
    EndMaintenanceRequest,
    PlanMaintenanceRequest,
    SetSystemStateRequest,
)
from protos.wsc.v1.maintenance_pb2_grpc import MaintenanceStub

group = new_group("System maintenance commands.")

SystemsArgument = Annotated[list[str], argument("SYSTEM...", help="The systems.")]
SystemArgument = Annotated[str, argument("SYSTEM", help="The system.")]
NotesFlag = Annotated[str, option("--notes", metavar="TEXT", help="Why; for people.")]
DryRunFlag = Annotated[bool, option("--dry-run", help="Only check; change nothing.")]
IdArgument = Annotated[str, argument("ID", help="maintenance-..., as `list` shows it.")]


class Workflow(StrEnum):
    """Value of `--type`."""

    MEM_BIST = "mem-bist"
    VDDC = "vddc"
    WAFER_DIAG = "wafer-diag"


@command(group, "create", example="csctl system-maintenance create systemf0 --type mem-bist")
def create_maintenance(
    invocation: Invocation,
    systems: SystemsArgument,
    *,
    kind: Annotated[Workflow, option("--type", help="What is done.")] = Workflow.WAFER_DIAG,
    seconds: Annotated[
        float | None, option("--seconds", metavar="N", help="How long. [default: ten minutes]")
    ] = None,
    dry_run: DryRunFlag = False,
) -> None:
    """Take systems away for a maintenance workflow, from now on.

    Jobs that run on them go on; no new one is placed there before the end. Systems are simulated,
    so nothing is measured on them.
    """
    name = f"SYSTEM_MAINTENANCE_TYPE_{kind.name}"
    request = pb.CreateSystemMaintenanceRequest(
        workflow_type=pb.SystemMaintenanceType.Value(name), systems=systems, dryrun=dry_run
    )
    if seconds is not None:
        request.wafer_diag.duration = seconds
    with invocation.connect() as client:
        jobs = client.call(CsAdmV1Stub(client.channel).CreateSystemMaintenance, request).jobs
    if dry_run:
        invocation.write(f"{len(jobs)} system(s) could be taken away")
        return
    invocation.write(f"{jobs[0].job_id.removesuffix(f'-{jobs[0].systems[0]}')} was created")


@command(
    group,
    "plan",
    example="csctl system-maintenance plan systemf0 --start 2026-12-01T08:00:00Z --seconds 3600",
)
def plan_maintenance(
    invocation: Invocation,
    systems: SystemsArgument,
    *,
    start: Annotated[
        str, option("--start", metavar="TIME", help="ISO time with zone. [default: now]")
    ] = "",
    seconds: Annotated[float, option("--seconds", metavar="N", help="How long.")] = 3600.0,
    notes: NotesFlag = "",
    dry_run: DryRunFlag = False,
) -> None:
    """Plan a time in which systems are away; jobs that may run into it go elsewhere."""
    request = PlanMaintenanceRequest(
        systems=systems, seconds=seconds, notes=notes, is_dry_run=dry_run
    )
    if start:
        request.starts_at.FromDatetime(_time(start))
    with invocation.connect() as client:
        reply = client.call(MaintenanceStub(client.channel).PlanMaintenance, request)
    invocation.write("it could be planned" if dry_run else f"{reply.id} was planned")


@command(group, "list", example="csctl system-maintenance list -a")
def list_maintenance(
    invocation: Invocation,
    all_states: Annotated[bool, option("-a", "--all-states", help="What is over too.")] = False,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """List maintenance workflows."""
    request = pb.ListSystemMaintenanceRequest(all_states=all_states)
    with invocation.connect() as client:
        stub = CsAdmV1Stub(client.channel)
        workflows = client.call(stub.ListSystemMaintenance, request).workflows
    table = partial(render, MAINTENANCE_COLUMNS, tuple(rows(workflows)))
    invocation.show_list(workflows, table=table, output=output)


@command(group, "get", example="csctl system-maintenance get maintenance-0123456789ab")
def get_maintenance(
    invocation: Invocation, name: IdArgument, output: OutputOption = OutputFormat.TABLE
) -> None:
    """Show one maintenance workflow, system by system."""
    request = pb.GetSystemMaintenanceRequest(workflow_id=name, all_states=True)
    with invocation.connect() as client:
        jobs = client.call(CsAdmV1Stub(client.channel).GetSystemMaintenance, request).jobs
    workflow = pb.SystemMaintenanceWorkflow(
        workflow_id=name, workflow_type=jobs[0].workflow_type, jobs=jobs
    )
    table = partial(render, MAINTENANCE_COLUMNS, tuple(rows([workflow])))
    invocation.show(workflow, table=table, output=output)


@command(group, "end", example="csctl system-maintenance end maintenance-0123456789ab")
def end_maintenance(invocation: Invocation, name: IdArgument) -> None:
    """Give systems back before the planned end, or call their maintenance off."""
    with invocation.connect() as client:
        stub = MaintenanceStub(client.channel)
        count = client.call(stub.EndMaintenance, EndMaintenanceRequest(id=name)).num_systems
    invocation.write(f"{name} was ended, {count} system(s) are back")


@command(group, "drain", example="csctl system-maintenance drain systemf0 --notes 'cooling'")
def drain_system(invocation: Invocation, system: SystemArgument, notes: NotesFlag = "") -> None:
    """Let no new job onto a system; the one that runs there goes on."""
    _set_state(invocation, system, "drain", notes)


@command(group, "resume", example="csctl system-maintenance resume systemf0")
def resume_system(invocation: Invocation, system: SystemArgument) -> None:
    """Put a system back into service after `drain`."""
    _set_state(invocation, system, "up", "")


@command(
    group,
    "set-health",
    example="csctl system-maintenance set-health systemf0 unhealthy --port n05 --notes 'link down'",
)
def set_health(
    invocation: Invocation,
    system: SystemArgument,
    health: Annotated[str, argument("healthy|unhealthy", help="What it is.")],
    port: Annotated[str, option("--port", metavar="PORT", help="The port concerned.")] = "",
    notes: NotesFlag = "",
) -> None:
    """Mark a system healthy or not; an unhealthy one gets no new job."""
    if health not in ("healthy", "unhealthy"):
        raise UserError(f"A system cannot be '{health}'.", hint="Write healthy or unhealthy.")
    request = pb.UpdateSystemStatusRequest(
        system_name=system, healthy=health == "healthy", message=notes, port=port
    )
    with invocation.connect() as client:
        stub = CsAdmV1Stub(client.channel)
        invocation.write(client.call(stub.UpdateSystemStatus, request).message)


def _set_state(invocation: Invocation, system: str, state: str, notes: str) -> None:
    request = SetSystemStateRequest(system=system, state=state, notes=notes)
    with invocation.connect() as client:
        reply = client.call(MaintenanceStub(client.channel).SetSystemState, request)
    invocation.write(f"system/{system} is set to {reply.state}")


def _time(text: str) -> dt.datetime:
    try:
        time = dt.datetime.fromisoformat(text)
    except ValueError as error:
        raise UserError(f"--start {text!r} is no ISO time: {error}.") from error
    if time.tzinfo is None:
        raise UserError(f"--start {text!r} has no time zone.", hint="End it with Z for UTC.")
    return time.astimezone(dt.UTC)
