"""The same tests over SQLite and over a real PostgreSQL."""

import itertools
from contextlib import contextmanager

import pytest
from sqlalchemy import create_engine

from appliance.management.store.state import State
from appliance.storage.engine.database import Database
from tests.support.clock import FakeClock
from tests.support.postgres import reason_to_skip, running_postgres

_NUMBERS = itertools.count()
_MIGRATED = "migrated"
"""A database that has its tables and nothing in them; each test gets a copy."""


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture(scope="session")
def postgres():
    if reason := reason_to_skip():
        pytest.skip(reason)
    with running_postgres() as url:
        with _administering(url) as connection:
            connection.exec_driver_sql(f"CREATE DATABASE {_MIGRATED}")
        Database.open(url.format(name=_MIGRATED)).close()
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
    with _administering(template) as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name} TEMPLATE {_MIGRATED}")
    return Database.open(template.format(name=name))


@contextmanager
def _administering(template):
    server = create_engine(template.format(name="postgres"), isolation_level="AUTOCOMMIT")
    try:
        with server.connect() as connection:
            yield connection
    finally:
        server.dispose()
