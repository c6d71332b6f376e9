"""Priorities as a user types them: a bucket, p1 to p3, or a value, 0 to 399."""

from appliance.core.errors import UserError
from appliance.core.integers import find_integer

_BUCKETS = ("p0", "p1", "p2", "p3")
_MAX_VALUE = 399


def parse_priority(text: str) -> str:
    """Return the priority as the cluster reads it: a bucket in lower case, or the value.

    Whether the user may use it (p0, 0 to 99, is for administrators) is for the cluster to say.

    Raises:
        UserError: It is neither.
    """
    bucket = text.lower()
    if bucket in _BUCKETS:
        return bucket
    value = find_integer(text, _MAX_VALUE)
    if value is not None:
        return str(value)
    raise UserError(
        f"Priority '{text}' is neither p1, p2 or p3 nor a value from 0 to {_MAX_VALUE}.",
        hint="A lower number goes first; jobs start as p2 (299).",
    )
