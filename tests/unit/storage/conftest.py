"""The same tests over SQLite and over a real PostgreSQL."""

import itertools

import pytest
from sqlalchemy import create_engine

from appliance.management.store.state import State
from appliance.storage.engine.database import Database
from tests.support.clock import FakeClock
from tests.support.postgres import reason_to_skip, running_postgres

_NUMBERS = itertools.count()


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture(scope="session")
def postgres():
    if reason := reason_to_skip():
        pytest.skip(reason)
    with running_postgres() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def state(request, tmp_path, clock):
    if request.param == "sqlite":
        database = Database.open_sqlite(tmp_path / "state.db")
    else:
        database = _new_database(request.getfixturevalue("postgres"))
    yield State.over(database, clock)
    database.close()


def _new_database(template):
    name = f"test{next(_NUMBERS)}"
    server = create_engine(template.format(name="postgres"), isolation_level="AUTOCOMMIT")
    with server.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
    server.dispose()
    return Database.open(template.format(name=name))
