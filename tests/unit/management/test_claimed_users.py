"""Whom a call says it is of, beside what its token proves."""

import pytest

from appliance.core.cluster.access import UserRole
from appliance.core.cluster.records import User
from appliance.core.errors import UnauthenticatedError
from appliance.management.access.authorization import Access, AccessOptions
from appliance.management.access.tokens import Tokens
from appliance.management.store.state import State
from appliance.storage.engine.database import Database
from tests.support.clock import FakeClock

ADA = User(uid=1000, gid=100, name="ada")
OPERATOR = User(uid=500, gid=500, name="ops")


@pytest.fixture
def access(tmp_path):
    clock, database = FakeClock(), Database.open_sqlite(tmp_path / "state.db")
    repository = State.over(database, clock).access
    options = AccessOptions(
        needs_token=True, operator=OPERATOR, serves_all=False, is_vouched_for=False
    )
    access = Access(repository, Tokens(repository, b"k" * 32, clock), options, clock)
    access.create_account("ada", uid=1000, gid=100, role=UserRole.USER)
    yield access
    database.close()


@pytest.mark.parametrize(
    ("claimed", "is_taken"),
    [
        (User(uid=1000, gid=100, name="ada"), True),
        (User(uid=1000, gid=100, name="pid.77"), True),  # the client has found no name
        (User(uid=1000, gid=100, name="eve"), False),
        (User(uid=1000, gid=101, name="ada"), False),
        (User(uid=1000, gid=101, name="pid.77"), False),
        (User(uid=1001, gid=100, name="ada"), False),
        (User(uid=0, gid=0, name="pid.77"), False),
        (User(), True),
    ],
)
def test_a_call_is_of_whom_its_token_says_or_names_nobody(access, claimed, is_taken):
    text = access.tokens.mint("ada").text
    if is_taken:
        assert access.identify(claimed, text, OPERATOR.uid).user == ADA
    else:
        with pytest.raises(UnauthenticatedError, match="its token says 'ada'"):
            access.identify(claimed, text, OPERATOR.uid)
