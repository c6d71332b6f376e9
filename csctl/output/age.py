"""Durations as the tables show them: 5s, 3m12s, 2h5m, 3d4h."""

import datetime as dt

from google.protobuf.timestamp_pb2 import Timestamp

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_DAY_SECONDS = 86_400
_NANOS = 1e9
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


def short_span(seconds: float) -> str:
    """Return the span in its largest unit and, unless zero, the next smaller one.

    A negative span reads `0s`: the cluster's clock may be ahead of the user's.
    """
    left = max(0, int(seconds))
    for index, (unit_seconds, letter) in enumerate(_UNITS):
        if left < unit_seconds:
            continue
        count, rest = divmod(left, unit_seconds)
        next_seconds, next_letter = _UNITS[min(index + 1, len(_UNITS) - 1)]
        next_count = rest // next_seconds
        return f"{count}{letter}" + (f"{next_count}{next_letter}" if next_count else "")
    return "0s"


def is_set(moment: Timestamp) -> bool:
    """Whether the cluster filled the timestamp in; an empty one is the epoch."""
    return bool(moment.seconds or moment.nanos)


def seconds_between(start: Timestamp, end: dt.datetime) -> float:
    """Return the seconds from `start` to `end`, which has a time zone."""
    # `Timestamp.ToDatetime` takes several times as long, and a list has hundreds of these.
    since = end - _EPOCH
    seconds = since.days * _DAY_SECONDS + since.seconds - start.seconds
    return seconds + (since.microseconds * 1000 - start.nanos) / _NANOS
