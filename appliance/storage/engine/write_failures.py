"""Classifies failed writes: the fault of the database, or of the data."""

from sqlalchemy.exc import (
    DataError,
    DBAPIError,
    IntegrityError,
    NotSupportedError,
    ProgrammingError,
    TimeoutError,
)

from appliance.core.errors import ClusterError

_OF_WHAT_WAS_WRITTEN = (DataError, IntegrityError, NotSupportedError, ProgrammingError)


def is_of_database(error: BaseException) -> bool:
    """Return whether the database itself is at fault, and not what was to be written.

    It is full, read-only, damaged or gone, or has no connection left. PostgreSQL's driver says some
    of that by `InternalError`, as after a failover to a server that only reads.
    """
    if isinstance(error, TimeoutError):
        return True
    return isinstance(error, DBAPIError) and not isinstance(error, _OF_WHAT_WAS_WRITTEN)


def first_of(error: BaseException) -> str:
    """Return the first error of a chain: rolling back may have failed because of it."""
    first, before = error, error.__context__
    while before is not None:
        first = before if is_of_database(before) else first
        before = before.__context__
    return str(first.orig if isinstance(first, DBAPIError) else first)


def refusal_of(error: BaseException) -> ClusterError:
    """Return what a caller is told whose change was not committed; see `is_of_database`."""
    return ClusterError(
        f"The appliance can keep nothing now: its database says {first_of(error)!r}.",
        hint="Try again once whoever runs it has looked at its disk and its log.",
    )
