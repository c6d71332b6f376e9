"""Cursors lead on where a page has ended, and nowhere else."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.api.cursors import job_cursor, job_place, offset_cursor, offset_of
from appliance.core.errors import UserError
from appliance.core.queries.job_filter import JobOrder, JobPosition

NUMBERS = st.integers(0, (1 << 62) - 1)


@given(order=st.sampled_from(JobOrder), priority=NUMBERS, sequence=NUMBERS)
def test_a_cursor_is_the_place_behind_its_job(order, priority, sequence):
    last = SimpleNamespace(priority=priority, sequence=sequence)
    place = JobPosition(priority=priority, sequence=sequence)
    assert job_place(job_cursor(last, order), order) == place


def test_a_cursor_of_a_list_in_another_order_is_refused_by_both_names():
    cursor = job_cursor(SimpleNamespace(priority=1, sequence=2), JobOrder.NEWEST)
    with pytest.raises(UserError, match="'newest', the request asks for 'oldest'"):
        job_place(cursor, JobOrder.OLDEST)


@pytest.mark.parametrize(
    "cursor", ["x", "####", "WzFd", "W10", "bnVsbA", "WyJuZXdlc3QiLCAtMSwgMl0"]
)
def test_what_is_no_cursor_of_ours_is_refused(cursor):
    with pytest.raises(UserError, match="none of ours"):
        job_place(cursor, JobOrder.NEWEST)


@given(offset=st.integers(0, 1 << 40))
def test_an_offset_comes_back(offset):
    assert offset_of(offset_cursor(offset)) == offset


def test_no_cursor_is_the_beginning():
    assert offset_of("") == 0


@pytest.mark.parametrize("cursor", ["-1", "1.5", "a", "\u0663", "9" * 121])
def test_what_is_no_offset_is_refused(cursor):
    with pytest.raises(UserError, match="none of ours"):
        offset_of(cursor)
