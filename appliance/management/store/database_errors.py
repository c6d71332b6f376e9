"""Translates failures of the database for callers of every entry point."""

from sqlalchemy.exc import SQLAlchemyError as DatabaseError

from appliance.core.errors import ClusterError
from appliance.storage.engine.write_failures import is_of_database, refusal_of

__all__ = ["DatabaseError", "find_refusal"]


def find_refusal(error: BaseException) -> ClusterError | None:
    """Return the error for a caller whose change was not committed; None for a defect of ours.

    The database is full, read-only, damaged or gone; see `is_of_database`.
    """
    return refusal_of(error) if is_of_database(error) else None
