"""Without tokens a call is of whom the kernel says."""

from itertools import product

import pytest

from appliance.core.cluster.identity import LocalAccount, user_of_peer
from appliance.core.cluster.records import User
from appliance.core.errors import ForbiddenError, UnauthenticatedError

OPS = User(uid=500, gid=500, name="ops")
NOBODY = User()
BOB = User(uid=1001, gid=100, name="bob")
ACCOUNTS = {1001: LocalAccount(name="bob", gid=100, groups=frozenset({100, 27}))}


def user_of(uid: int | None, claimed: User, *, serves_all: bool = True) -> User:
    return user_of_peer(uid, claimed, operator=OPS, serves_all=serves_all, account_of=ACCOUNTS.get)


@pytest.mark.parametrize("uid", [0, OPS.uid])
def test_the_operator_and_root_may_act_for_anybody(uid: int) -> None:
    assert user_of(uid, BOB, serves_all=False) == BOB
    assert user_of(uid, NOBODY, serves_all=False) == OPS
    assert user_of(uid, User(name="no uid"), serves_all=False) == OPS


def test_another_user_is_served_only_where_all_are() -> None:
    with pytest.raises(ForbiddenError, match=r"serves ops \(uid 500\) alone.*uid 1001"):
        user_of(1001, NOBODY, serves_all=False)
    assert user_of(1001, NOBODY) == BOB


def test_another_user_cannot_claim_to_be_somebody_else() -> None:
    for claimed in (User(uid=0, gid=0, name="root"), OPS, User(uid=1002, gid=100, name="bob")):
        with pytest.raises(UnauthenticatedError, match=f"says uid {claimed.uid}"):
            user_of(1001, claimed)


def test_another_user_cannot_claim_a_group_or_a_name() -> None:
    assert user_of(1001, User(uid=1001, gid=27, name="root")) == User(uid=1001, gid=27, name="bob")
    with pytest.raises(UnauthenticatedError, match="gid 0"):
        user_of(1001, User(uid=1001, gid=0, name="bob"))


def test_a_user_of_the_first_group_of_all_may_name_it() -> None:
    account = LocalAccount(name="eve", gid=100, groups=frozenset({0, 100}))
    for gid, wanted in ((0, 0), (-1, 100), (100, 100)):
        found = user_of_peer(
            1002,
            User(uid=1002, gid=gid),
            operator=OPS,
            serves_all=True,
            account_of={1002: account}.get,
        )
        assert found == User(uid=1002, gid=wanted, name="eve")


def test_whoever_the_kernel_does_not_know_is_nobody() -> None:
    for claimed, serves_all in product((NOBODY, BOB, OPS), (False, True)):
        with pytest.raises(UnauthenticatedError, match="kernel does not know"):
            user_of(None, claimed, serves_all=serves_all)


def test_a_user_without_an_account_is_refused() -> None:
    with pytest.raises(ForbiddenError, match="Uid 4711 has no account"):
        user_of(4711, NOBODY)
