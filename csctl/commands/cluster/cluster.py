"""`csctl cluster`: the topology of the cluster."""

from collections.abc import Callable
from functools import partial
from typing import Annotated

from appliance.core.errors import UserError
from csctl.command_line.flags import JobNameArgument, OutputOption, command, new_group
from csctl.command_line.invocation import Invocation
from csctl.command_line.params import option
from csctl.commands.runs.named_runs import find_job
from csctl.names import parse_job_name
from csctl.output.documents.output_formats import OutputFormat
from csctl.output.events import system_event_columns
from csctl.output.table import NOT_APPLICABLE, Column, render
from protos.csctl import api_pb2 as pb
from protos.csctl.api_pb2_grpc import CsCtlV1Stub

group = new_group("Manage cluster resources and information.")

_EVENT_TYPES = {
    "": pb.SYSTEM_EVENT_TYPE_UNSPECIFIED,
    "stall": pb.SYSTEM_EVENT_TYPE_STALL,
    "state-change": pb.SYSTEM_EVENT_TYPE_STATE_CHANGE,
}

_CABLES: tuple[Column[pb.SwitchPortConnection], ...] = (
    Column(header="SWITCH", cell=lambda each: each.switch_name),
    Column(header="SWITCH-PORT", cell=lambda each: each.switch_port or NOT_APPLICABLE),
    Column(header="PEER", cell=lambda each: each.peer_name),
    Column(header="PEER-PORT", cell=lambda each: each.peer_port or NOT_APPLICABLE),
)


@command(group, "topology", example="csctl cluster topology")
def show_topology(invocation: Invocation, output: OutputOption = OutputFormat.TABLE) -> None:
    """Show which system hangs on which switch, as far as the cluster's file says."""
    with invocation.connect() as client:
        stub = CsCtlV1Stub(client.channel)
        reply = client.call(stub.GetClusterTopology, pb.GetClusterTopologyRequest())
    invocation.show(reply, table=partial(render, _CABLES, reply.connections), output=output)


@command(group, "job-topology", example="csctl cluster job-topology wsjob-0001")
def show_job_topology(
    invocation: Invocation,
    name: JobNameArgument,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Show where a job's pods are, what they send to, and the memory that they use."""
    job = parse_job_name(name)
    with invocation.connect(job.session) as client:
        request = pb.GetJobTopologyRequest(job_id=find_job(invocation, client, job))
        reply = client.call(CsCtlV1Stub(client.channel).GetJobTopology, request)
    memory = {each.pod_id: each.pod_memory_mib for each in reply.memory_allocations}
    columns = _pod_columns(lambda pod: f"{memory[pod]}Mi" if pod in memory else NOT_APPLICABLE)
    invocation.show(reply, table=partial(render, columns, reply.connections), output=output)


def _pod_columns(
    memory_of: Callable[[str], str],
) -> tuple[Column[pb.JobTopologyConnection], ...]:
    return (
        Column(header="POD", cell=lambda each: each.pod_id),
        Column(header="NODE", cell=lambda each: each.node_name),
        Column(header="SENDS-TO", cell=lambda each: each.egress_targets or NOT_APPLICABLE),
        Column(header="SWITCH", cell=lambda each: each.system_affinity_switch or NOT_APPLICABLE),
        Column(header="ONE-HOP", cell=lambda each: "yes" if each.is_one_hop else "no"),
        Column(header="MEMORY", cell=lambda each: memory_of(each.pod_id)),
    )


@command(group, "events", example="csctl cluster events --system systemf0")
def list_events(
    invocation: Invocation,
    *,
    system: Annotated[str, option("--system", metavar="NAME", help="Only of this system.")] = "",
    kind: Annotated[
        str, option("--type", metavar="TYPE", help="Only stall, or only state-change.")
    ] = "",
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """List what has happened to systems, oldest first: stalls and changes of state."""
    if kind not in _EVENT_TYPES:
        known = ", ".join(filter(None, _EVENT_TYPES))
        raise UserError(f"There is no type of event {kind!r}.", hint=f"Types are {known}.")
    with invocation.connect() as client:
        request = pb.ListSystemEventsRequest(system_name=system, type=_EVENT_TYPES[kind])
        events = client.call(CsCtlV1Stub(client.channel).ListSystemEvents, request).events
    columns = system_event_columns(invocation.now())
    invocation.show_list(events, table=partial(render, columns, events), output=output)
