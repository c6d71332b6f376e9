"""Times as a user types them for a report."""

import datetime as dt

import pytest

from appliance.core.errors import UserError
from csctl.commands.jobs.report import parse_time

NOW = dt.datetime(2026, 3, 31, 12, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("2026-01-31", dt.datetime(2026, 1, 31, tzinfo=dt.UTC)),
        ("2026-01-31T08:30", dt.datetime(2026, 1, 31, 8, 30, tzinfo=dt.UTC)),
        ("2026-01-31T08:30+02:00", dt.datetime(2026, 1, 31, 6, 30, tzinfo=dt.UTC)),
        ("7d", NOW - dt.timedelta(days=7)),
        ("1h30m", NOW - dt.timedelta(minutes=90)),
    ],
)
def test_a_time_is_a_date_or_a_span_before_now(text: str, meant: dt.datetime) -> None:
    assert parse_time(text, NOW) == meant


@pytest.mark.parametrize("text", ["yesterday", "2026-02-30", "0", "9999999d", "-7d"])
def test_a_time_that_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="is not understood"):
        parse_time(text, NOW)
