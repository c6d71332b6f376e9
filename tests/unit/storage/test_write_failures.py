"""Who is at fault when something is not written."""

import psycopg
import pytest
from sqlalchemy.exc import DBAPIError, IntegrityError, TimeoutError

from appliance.storage.engine.write_failures import first_of, is_of_database


def as_sqlalchemy_says(error: psycopg.Error) -> BaseException:
    return DBAPIError.instance("UPDATE jobs", {}, error, psycopg.Error)


@pytest.mark.parametrize(
    "error",
    [
        psycopg.errors.ReadOnlySqlTransaction("cannot execute UPDATE"),
        psycopg.errors.InFailedSqlTransaction("current transaction is aborted"),
        psycopg.errors.DiskFull("could not extend file"),
        psycopg.OperationalError("server closed the connection"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_database_that_is_read_only_full_or_gone_is_at_fault_itself(error):
    assert is_of_database(as_sqlalchemy_says(error))


def test_no_connection_left_is_the_database_s_fault_too():
    assert is_of_database(TimeoutError("QueuePool limit of size 32 reached"))


@pytest.mark.parametrize(
    "error",
    [psycopg.errors.UniqueViolation("duplicate"), psycopg.errors.StringDataRightTruncation("long")],
    ids=lambda error: type(error).__name__,
)
def test_a_row_that_cannot_be_is_its_writer_s_fault(error):
    assert not is_of_database(as_sqlalchemy_says(error))


def test_what_was_wrong_first_is_told():
    first = as_sqlalchemy_says(psycopg.errors.DiskFull("could not extend file"))
    later = IntegrityError("ROLLBACK", {}, psycopg.Error("no transaction"))
    later.__context__ = first
    assert first_of(later) == "could not extend file"
