"""Nobody gets an account whose name people would take for another one."""

import pytest

from appliance.core.cluster.access import UserRole
from appliance.core.errors import ConflictError, UserError
from appliance.storage.engine.database import Database
from appliance.storage.users.access import AccessRepository
from tests.support.clock import FakeClock


@pytest.fixture
def access(tmp_path):
    database = Database.open_sqlite(tmp_path / "state.db")
    made = AccessRepository(database, FakeClock())
    made.create_account("ada", uid=1000, gid=100, role=UserRole.USER)
    yield made
    database.close()


@pytest.mark.parametrize(
    "name",
    [
        *("", "a" * 65, "\u0430da", "ada\u200b", "ad\u0430", "a da", "ada\n", "ada\x00"),
        *("\u202eada", "\uff41da", "ad\u00e1", "ada/../root", "ada;root", "<b>ada"),
    ],
)
def test_no_account_has_a_name_that_looks_like_another_or_like_nothing(access, name):
    with pytest.raises(UserError, match="is no name of an account"):
        access.create_account(name, uid=1009, gid=100, role=UserRole.USER)


def test_no_account_differs_from_another_by_capitals_alone(access):
    with pytest.raises(ConflictError, match="User ada"):
        access.create_account("Ada", uid=1009, gid=100, role=UserRole.USER)


@pytest.mark.parametrize("name", ["ada2", "Ada.Lovelace-1", "ada@example.org", "CORP\\ada", "svc$"])
def test_a_name_of_a_directory_service_is_one(access, name):
    assert access.create_account(name, uid=1009, gid=100, role=UserRole.USER).name == name
