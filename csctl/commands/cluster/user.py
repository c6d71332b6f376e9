"""`csctl user`: blocks and unblocks users."""

from functools import partial
from typing import Annotated

from csctl.command_line.flags import OutputOption, command, new_group
from csctl.command_line.invocation import Invocation
from csctl.command_line.params import argument
from csctl.output.documents.output_formats import OutputFormat
from csctl.output.table import Column, render
from protos.csadm import csadm_pb2 as pb
from protos.csadm.csadm_pb2_grpc import CsAdmV1Stub

group = new_group("Block and unblock users.")

UidArgument = Annotated[int, argument("UID", help="The user's numeric id.")]

_COLUMNS: tuple[Column[pb.BlockedUser], ...] = (
    Column(header="UID", cell=lambda user: str(user.user_id)),
    Column(header="SINCE", cell=lambda user: user.blocked_since),
)


@command(group, "block", example="csctl user block 60001")
def block_user(invocation: Invocation, uid: UidArgument) -> None:
    """Block a user: they may look and end what is theirs, no more."""
    with invocation.connect() as client:
        stub = CsAdmV1Stub(client.channel)
        invocation.write(client.call(stub.UserBlock, pb.UserBlockRequest(user_id=uid)).message)


@command(group, "unblock", example="csctl user unblock 60001")
def unblock_user(invocation: Invocation, uid: UidArgument) -> None:
    """Lift a block."""
    with invocation.connect() as client:
        stub = CsAdmV1Stub(client.channel)
        invocation.write(client.call(stub.UserUnblock, pb.UserUnblockRequest(user_id=uid)).message)


@command(group, "list-blocked", example="csctl user list-blocked")
def list_blocked(invocation: Invocation, output: OutputOption = OutputFormat.TABLE) -> None:
    """List who is blocked."""
    with invocation.connect() as client:
        stub = CsAdmV1Stub(client.channel)
        users = client.call(stub.UserListBlocked, pb.UserListBlockedRequest()).users
    invocation.show_list(users, table=partial(render, _COLUMNS, users), output=output)
