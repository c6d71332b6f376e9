import datetime as dt

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from csctl.output.age import is_set, seconds_between, short_span


@pytest.mark.parametrize(
    ("seconds", "want"),
    [
        (0, "0s"),
        (5.9, "5s"),
        (59, "59s"),
        (60, "1m"),
        (192, "3m12s"),
        (7500, "2h5m"),
        (7200, "2h"),
        (7259, "2h"),
        (273_600, "3d4h"),
        (86_400 * 400, "400d"),
        (-3, "0s"),
    ],
)
def test_a_span_reads_in_its_two_largest_units(seconds: float, want: str) -> None:
    assert short_span(seconds) == want


@given(st.integers(min_value=0, max_value=10**9))
def test_a_span_never_shows_more_than_it_is_nor_loses_more_than_its_last_unit(seconds: int) -> None:
    unit_seconds = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
    shown, number = 0, ""
    for char in short_span(seconds):
        if char.isdigit():
            number += char
        else:
            shown, number = shown + int(number) * unit_seconds[char], ""

    assert shown <= seconds < shown + 3600


def test_an_empty_timestamp_is_not_a_moment() -> None:
    assert not is_set(Timestamp())
    assert is_set(Timestamp(seconds=1))


def test_seconds_between_counts_in_utc() -> None:
    noon = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
    start = Timestamp()
    start.FromDatetime(noon - dt.timedelta(seconds=90))

    assert seconds_between(start, noon.astimezone(dt.timezone(dt.timedelta(hours=5)))) == 90
