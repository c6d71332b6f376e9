"""Identifies the caller where no token is required: by the kernel. Pure.

The user that a call names counts only if it comes from the operator of the appliance or from root,
who could act as anybody anyway. Everybody else is the user whom the kernel reports, if they are
served at all.
"""

from collections.abc import Callable
from dataclasses import dataclass

from appliance.core.cluster.records import User
from appliance.core.errors import ForbiddenError, UnauthenticatedError

ROOT = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalAccount:
    """A user of this machine.

    Attributes:
        name: Login name.
        gid: Their primary group.
        groups: All groups that they are in.
    """

    name: str
    gid: int
    groups: frozenset[int]


def user_of_peer(
    peer_uid: int | None,
    claimed: User,
    *,
    operator: User,
    serves_all: bool,
    account_of: Callable[[int], LocalAccount | None],
) -> User:
    """Return the user of a call over loopback.

    Args:
        peer_uid: User id of the socket that it comes from; None if the kernel knows none.
        claimed: Who the call says it is of; uid -1 if it does not say.
        operator: Who runs the appliance.
        serves_all: Whether other users of the machine are served.
        account_of: Finds the account of a user id.

    Raises:
        UnauthenticatedError: It cannot be known, or the call says somebody else.
        ForbiddenError: This user is not served.
    """
    if peer_uid is None:
        raise UnauthenticatedError(
            "The kernel does not know whose connection this is, and no token is asked for here.",
            hint="Connect from this machine itself, or start the appliance with --tls --tokens.",
        )
    if peer_uid in (ROOT, operator.uid):
        return claimed if claimed.uid >= 0 else operator
    if not serves_all:
        raise ForbiddenError(
            f"This appliance was started without tokens and serves {operator.name or '?'} "
            f"(uid {operator.uid}) alone; this connection is of uid {peer_uid}.",
            hint="Ask who runs it to start it with --tls --tokens, or as root with --local-users.",
        )
    return _other_user(peer_uid, claimed, account_of(peer_uid))


def _other_user(uid: int, claimed: User, account: LocalAccount | None) -> User:
    if account is None:
        raise ForbiddenError(
            f"Uid {uid} has no account on this machine, so its groups are not known.",
            hint="Add one, or use an appliance with --tls --tokens.",
        )
    if claimed.uid not in (-1, uid):
        raise UnauthenticatedError(
            f"The call says uid {claimed.uid}; its connection is of {account.name!r} (uid {uid}).",
            hint="Leave out auth-uid, or send your own.",
        )
    if claimed.gid not in (-1, account.gid, *account.groups):
        raise UnauthenticatedError(
            f"The call says gid {claimed.gid}, and {account.name!r} (uid {uid}) is not in that "
            "group.",
            hint="Leave out auth-gid, or send one of your own.",
        )
    return User(uid=uid, gid=account.gid if claimed.gid < 0 else claimed.gid, name=account.name)
