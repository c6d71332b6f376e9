"""`csctl session`: user namespaces and their quotas."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated

from appliance.core.errors import UserError
from appliance.core.integers import MAX_POSITION, find_integer
from csctl.command_line.flags import OutputOption, command, new_group
from csctl.command_line.invocation import Invocation
from csctl.command_line.params import argument, option
from csctl.connection.client import ClusterClient
from csctl.labels import parse_changes
from csctl.output.documents.output_formats import OutputFormat
from csctl.output.sessions import SESSION_COLUMNS, session_text
from csctl.output.table import render
from protos.csadm import csadm_pb2 as pb
from protos.csadm.csadm_pb2_grpc import CsAdmV1Stub

group = new_group("Session management commands.")

NameArgument = Annotated[str, argument("NAME", help="The session.")]
SystemsFlag = Annotated[
    int | None,
    option("--systems", min=0, metavar="N", help="Systems of its own; 0 for none and no limit."),
]
BorrowFlag = Annotated[
    str | None,
    option("--borrow", metavar="N|any", help="Systems beyond its own that it may borrow."),
]
GroupsFlag = Annotated[
    int | None,
    option("--nodegroups", min=0, metavar="N", help="MemoryX node groups at a time; 0: no limit."),
]
ExecutesFlag = Annotated[
    int | None,
    option("--executes", min=0, metavar="N", help="Execute jobs at a time; 0: no limit."),
]
CompilesFlag = Annotated[
    int | None,
    option("--compiles", min=0, metavar="N", help="Compile jobs at a time; 0: no limit."),
]
SharesFlag = Annotated[
    float | None, option("--shares", metavar="X", help="Its part of the cluster under fair share.")
]
MembersFlag = Annotated[
    str | None,
    option("--members", metavar="USER,...", help="Whose jobs go there unless they say otherwise."),
]
LabelsFlag = Annotated[
    list[str] | None,
    option("-l", "--label", metavar="K=V|K-", help="Set or remove a label; may be repeated."),
]
DryRunFlag = Annotated[bool, option("--dry-run", help="Only check; change nothing.")]


@command(group, "create", example="csctl session create nlp --systems 2 --members ada,bob")
def create_session(
    invocation: Invocation,
    name: NameArgument,
    *,
    systems: SystemsFlag = None,
    borrow: BorrowFlag = None,
    nodegroups: GroupsFlag = None,
    executes: ExecutesFlag = None,
    compiles: CompilesFlag = None,
    shares: SharesFlag = None,
    members: MembersFlag = None,
    labels: LabelsFlag = None,
    dry_run: DryRunFlag = False,
) -> None:
    """Create a session."""
    request = pb.CreateSessionRequest(
        name=name,
        spec=_spec(
            pb.SessionResourceSpec(),
            systems=systems,
            nodegroups=nodegroups,
            executes=executes,
            compiles=compiles,
            dry_run=dry_run,
        ),
        properties=_properties(borrow=borrow, shares=shares, members=members),
        user_label_operations=_operations(labels or ()),
    )
    with invocation.connect() as client:
        client.call(CsAdmV1Stub(client.channel).CreateSession, request)
    invocation.write(f"session/{name} {'could be' if dry_run else 'was'} created")


@command(group, "update", example="csctl session update nlp --systems 4 --dry-run")
def update_session(
    invocation: Invocation,
    name: NameArgument,
    *,
    systems: SystemsFlag = None,
    borrow: BorrowFlag = None,
    nodegroups: GroupsFlag = None,
    executes: ExecutesFlag = None,
    compiles: CompilesFlag = None,
    shares: SharesFlag = None,
    members: MembersFlag = None,
    labels: LabelsFlag = None,
    dry_run: DryRunFlag = False,
) -> None:
    """Change a session; what is not named stays as it is."""
    with invocation.connect() as client:
        stub = CsAdmV1Stub(client.channel)
        before = client.call(stub.GetSession, pb.GetSessionRequest(name=name))
        request = pb.UpdateSessionRequest(
            name=name,
            spec=_spec(
                before.state.current_resource_spec,
                systems=systems,
                nodegroups=nodegroups,
                executes=executes,
                compiles=compiles,
                dry_run=dry_run,
            ),
            properties=_properties(borrow=borrow, shares=shares, members=members),
            user_label_operations=_operations(labels or ()),
        )
        client.call(stub.UpdateSession, request)
    invocation.write(f"session/{name} {'could be' if dry_run else 'was'} updated")


@command(group, "get", example="csctl session get nlp")
def get_session(
    invocation: Invocation, name: NameArgument, output: OutputOption = OutputFormat.TABLE
) -> None:
    """Show one session: what it may use, what it holds, and its changes."""
    with invocation.connect() as client:
        stub = CsAdmV1Stub(client.channel)
        session = client.call(stub.GetSession, pb.GetSessionRequest(name=name))
    invocation.show(session, table=partial(session_text, session), output=output)


@command(group, "list", example="csctl session list -o wide")
def list_sessions(invocation: Invocation, output: OutputOption = OutputFormat.TABLE) -> None:
    """List all sessions."""
    with invocation.connect() as client:
        sessions = _sessions(client)
    invocation.show_list(sessions, table=partial(render, SESSION_COLUMNS, sessions), output=output)


@command(group, "delete", example="csctl session delete nlp")
def delete_session(invocation: Invocation, name: NameArgument) -> None:
    """Delete a session that has no unfinished job."""
    with invocation.connect() as client:
        stub = CsAdmV1Stub(client.channel)
        client.call(stub.DeleteSession, pb.DeleteSessionRequest(name=name))
    invocation.write(f"session/{name} was deleted")


@command(group, "pause", example="csctl session pause nlp")
def pause_session(invocation: Invocation, name: NameArgument) -> None:
    """Let no waiting job of a session start; running ones go on."""
    with invocation.connect() as client:
        stub = CsAdmV1Stub(client.channel)
        request = pb.SessionPausePendingJobsRequest(name=name)
        message = client.call(stub.SessionPausePendingJobs, request).message
    invocation.write(message)


@command(group, "unpause", example="csctl session unpause nlp")
def unpause_session(invocation: Invocation, name: NameArgument) -> None:
    """Let waiting jobs of a session start again."""
    with invocation.connect() as client:
        stub = CsAdmV1Stub(client.channel)
        request = pb.SessionUnpausePendingJobsRequest(name=name)
        message = client.call(stub.SessionUnpausePendingJobs, request).message
    invocation.write(message)


def _sessions(client: ClusterClient) -> Sequence[pb.Session]:
    return client.call(CsAdmV1Stub(client.channel).ListSession, pb.ListSessionRequest()).items


def _spec(
    before: pb.SessionResourceSpec,
    *,
    systems: int | None,
    nodegroups: int | None,
    executes: int | None,
    compiles: int | None,
    dry_run: bool,
) -> pb.SessionSpec:
    """Return the numbers to send: all of them, since the wire cannot leave one alone."""
    spec = pb.SessionResourceSpec()
    spec.CopyFrom(before)
    if systems is not None:
        spec.system_count = systems
    if nodegroups is not None:
        spec.large_memory_rack_count, spec.xlarge_memory_rack_count = nodegroups, 0
    if executes is not None:
        spec.parallel_execute_count = executes
    if compiles is not None:
        spec.parallel_compile_count = compiles
    mode = pb.SET_RESOURCE_SPEC_DRYRUN if dry_run else pb.SET_RESOURCE_SPEC
    return pb.SessionSpec(update_mode=mode, resource_spec=spec)


def _properties(*, borrow: str | None, shares: float | None, members: str | None) -> dict[str, str]:
    properties = {}
    if borrow is not None:
        if borrow != "any" and find_integer(borrow, MAX_POSITION) is None:
            raise UserError(f"--borrow {borrow!r} is not understood.", hint="Give N, or `any`.")
        properties["borrow_limit"] = "" if borrow == "any" else borrow
    if shares is not None:
        properties["shares"] = f"{shares:g}"
    if members is not None:
        properties["members"] = members
    return properties


def _operations(labels: Sequence[str]) -> list[pb.UserLabelOperation]:
    changes = parse_changes(labels) if labels else {}
    return [
        pb.UserLabelOperation(op=pb.UserLabelOperation.REMOVE, key=key)
        if value is None
        else pb.UserLabelOperation(op=pb.UserLabelOperation.UPSERT, key=key, value=value)
        for key, value in changes.items()
    ]
