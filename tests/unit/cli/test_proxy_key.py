"""The key of proxies is asked for seldom, and kept while the database does not answer."""

import pytest
from sqlalchemy.exc import OperationalError

from appliance.cli.proxy import ProxyKey
from appliance.storage.cluster.coordinator_directory import CoordinatorDirectory
from tests.support.clock import FakeClock


class Directory(CoordinatorDirectory):
    """Has a key, or does not answer; counts who asks."""

    def __init__(self, key: bytes | None) -> None:
        super().__init__("sqlite://")
        self.key, self.num_asked = key, 0

    def proxy_key(self) -> bytes:
        self.num_asked += 1
        if self.key is None:
            raise OperationalError("SELECT", {}, Exception("gone"))
        return self.key


def test_it_is_read_anew_after_seconds() -> None:
    clock, directory = FakeClock(), Directory(b"first")
    find = ProxyKey(directory, clock)
    assert {find() for _ in range(100)} == {b"first"}
    assert directory.num_asked == 1
    directory.key = b"second"
    clock.advance(5.0)
    assert find() == b"second"


def test_the_last_one_is_kept_while_the_database_does_not_answer() -> None:
    clock, directory = FakeClock(), Directory(b"first")
    find = ProxyKey(directory, clock)
    find()
    directory.key = None
    clock.advance(3600.0)
    assert find() == b"first"


def test_without_one_nobody_is_passed_on() -> None:
    with pytest.raises(LookupError):
        ProxyKey(Directory(None), FakeClock())()
