"""Cursors: opaque text that says where the next page of a list begins."""

import base64
import binascii
import json

from appliance.core.errors import UserError
from appliance.core.integers import MAX_POSITION, find_integer
from appliance.core.queries.job_filter import JobLine, JobOrder, JobPosition

MAX_CURSOR = 120
"""Characters of a cursor."""
_MAX_NUMBER = 1 << 62


def job_cursor(last: JobLine, order: JobOrder) -> str:
    """Return the cursor of the page that begins after a job."""
    text = json.dumps([order.value, last.priority, last.sequence])
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def offset_cursor(offset: int) -> str:
    """Return the cursor after a number of items, for lists that are held in memory."""
    return str(offset)


def offset_of(cursor: str) -> int:
    """Return how many items come before a cursor; raises `UserError` for an invalid one."""
    offset = find_integer(cursor or "0", MAX_POSITION)
    if offset is None:
        raise _unknown(cursor)
    return offset


def job_place(cursor: str, order: JobOrder) -> JobPosition:
    """Return the place that a cursor is.

    Raises:
        UserError: It is none of ours, or of a list in another order.
    """
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        named, priority, sequence = json.loads(base64.b64decode(padded, altchars=b"-_"))
    except (binascii.Error, ValueError, TypeError) as error:
        raise _unknown(cursor) from error
    numbers = (priority, sequence)
    if not all(type(number) is int and 0 <= number < _MAX_NUMBER for number in numbers):
        raise _unknown(cursor)
    if named != order.value:
        raise UserError(
            f"The cursor is of a list in order {named!r}, the request asks for {order.value!r}."
        )
    return JobPosition(priority=priority, sequence=sequence)


def _unknown(cursor: str) -> UserError:
    return UserError(
        f"Cursor {cursor[:MAX_CURSOR]!r} is none of ours.", hint="Begin again without one."
    )
