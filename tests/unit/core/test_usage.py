"""Reports of use: what counts, for whom, and in which month."""

import csv
import datetime as dt
import io

import pytest

from appliance.core.cluster.jobs import Phase
from appliance.core.errors import UserError
from appliance.core.queries.usage import Span, SystemUse, as_csv, report

YEAR = Span(
    since=dt.datetime(2026, 1, 1, tzinfo=dt.UTC), until=dt.datetime(2027, 1, 1, tzinfo=dt.UTC)
)


def at(month, day, hour=0):
    return dt.datetime(2026, month, day, hour, tzinfo=dt.UTC)


def use(user, systems, start, end, *, session="job-operator", phase=Phase.SUCCEEDED, **labels):
    return SystemUse(
        session=session,
        user=user,
        labels=labels,
        num_systems=systems,
        phase=phase,
        started_at=start,
        ended_at=end,
    )


def test_system_time_is_systems_times_hours_and_the_most_comes_first():
    uses = [
        use("ada", 1, at(3, 1), at(3, 1, 2)),
        use("bob", 4, at(3, 1), at(3, 1, 3), phase=Phase.FAILED),
        use("ada", 2, at(3, 2), at(3, 2, 1), phase=Phase.CANCELLED),
    ]
    first, second = report(uses, by=["user"], span=YEAR, now=at(4, 1))
    assert (first.keys, first.system_seconds / 3600) == (("bob",), 12)
    assert (first.num_jobs, first.num_failed) == (1, 1)
    assert (second.keys, second.system_seconds / 3600) == (("ada",), 4)
    assert (second.num_jobs, second.num_succeeded, second.num_cancelled) == (2, 1, 1)


def test_a_job_over_the_end_of_a_month_counts_in_both_and_ends_in_the_last():
    uses = [use("ada", 2, at(1, 31, 22), at(3, 1, 1))]
    lines = report(uses, by=["month"], span=YEAR, now=at(4, 1))
    assert [(line.keys[0], line.system_seconds / 7200) for line in lines] == [
        ("2026-01", 2),
        ("2026-02", 28 * 24),
        ("2026-03", 1),
    ]
    assert [line.num_jobs for line in lines] == [1, 1, 1]
    assert [line.num_succeeded for line in lines] == [0, 0, 1]


def test_a_span_cuts_what_lies_outside_and_a_running_job_counts_until_now():
    span = Span(since=at(3, 1), until=at(3, 2))
    before_and_in = use("ada", 1, at(2, 27), at(3, 1, 3))
    running = use("ada", 1, at(3, 1, 20), None, phase=Phase.RUNNING)
    outside = use("ada", 1, at(3, 2), at(3, 5))
    (line,) = report([before_and_in, running, outside], by=["user"], span=span, now=at(3, 1, 22))
    assert line.system_seconds / 3600 == 5
    assert (line.num_jobs, line.num_succeeded) == (2, 1)


def test_groups_are_by_several_things_and_by_labels():
    uses = [
        use("ada", 1, at(3, 1), at(3, 1, 1), project="gpt"),
        use("ada", 1, at(3, 1), at(3, 1, 2), project="bert", session="team"),
        use("ada", 1, at(3, 1), at(3, 1, 4)),
    ]
    lines = report(uses, by=["session", "label=project"], span=YEAR, now=at(4, 1))
    assert [line.keys for line in lines] == [
        ("job-operator", ""),
        ("team", "bert"),
        ("job-operator", "gpt"),
    ]


def test_the_csv_can_be_read_back_and_holds_no_formula():
    uses = [use("=ada,1", 3, at(3, 1), at(3, 1, 1)), use("b", 1, at(3, 1), at(3, 1, 1))]
    text = as_csv(report(uses, by=["user"], span=YEAR, now=at(4, 1)), ["user"])
    rows = list(csv.DictReader(text.splitlines()))
    assert rows[0] == {
        "user": "'=ada,1",
        "jobs": "1",
        "succeeded": "1",
        "failed": "0",
        "cancelled": "0",
        "system_hours": "3.000000",
    }


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        *((f"{sign}1", f"'{sign}1") for sign in "=+-@\uff1d\uff0b\uff0d\uff20\ufe62"),
        *((f" {sign}1", f"' {sign}1") for sign in "=+-@"),
        ("\t=1", "\\t=1"),
        ("\r=1", "\\r=1"),
        ("ada\r=1", "ada\\r=1"),
        ("ada\n=1", "ada\\n=1"),
        ("ada", "ada"),
        ("a=1", "a=1"),
        ("1-2", "1-2"),
        (" ada", " ada"),
    ],
)
def test_no_name_begins_a_formula_or_a_row_however_it_is_written(name, cell):
    uses = [use(name, 1, at(3, 1), at(3, 1, 1))]
    text = as_csv(report(uses, by=["user"], span=YEAR, now=at(4, 1)), ["user"])
    (row,) = csv.DictReader(io.StringIO(text, newline=""))
    assert row["user"] == cell


@pytest.mark.parametrize("by", [["nobody"], ["label="], [], ["user", "user"]])
def test_a_grouping_that_is_not_understood_is_refused(by):
    with pytest.raises(UserError, match="report"):
        report([], by=by, span=YEAR, now=at(4, 1))


def test_a_span_without_time_is_refused():
    with pytest.raises(UserError, match="2026-03-01 00:00"):
        Span(since=at(3, 1), until=at(3, 1))
