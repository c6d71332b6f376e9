"""Every integer that a caller writes as text: read with its bound, or refused in a sentence.

Python reads no 5,000 digits, SQL and the kernel no number of more than 64 bits; what it reads
besides are signs, spaces, underscores and the digits of other scripts.
"""

import re
from pathlib import Path

import pytest

from appliance.api.cursors import offset_of
from appliance.api.entry import _check_length
from appliance.api.errors import TooLargeError
from appliance.api.tags import version_of
from appliance.core.cluster.drivers import DriverSpec
from appliance.core.cluster.records import User
from appliance.core.cluster.sessions import SessionSpec
from appliance.core.errors import UserError
from appliance.core.integers import MAX_ID, MAX_POSITION, find_integer
from appliance.management.access.provider_logins import _id
from appliance.management.changes.watch import ChangeFeed
from appliance.management.jobs.queue_view import StartQuestion
from appliance.wire.caller import caller
from appliance.wire.requests.submissions import parse_priority, scheduler_hints
from appliance.wire.session_messages import session_changes
from csctl.commands.cluster.session import _properties
from csctl.commands.jobs.estimate import _counts
from csctl.commands.jobs.submit import parse_indices, parse_restart_policy
from csctl.priorities import parse_priority as typed_priority
from csctl.time_limits import parse_time_limit
from protos.appliance.common_config_pb2 import DebugArgs
from protos.csadm import csadm_pb2

ROOT = Path(__file__).parents[3]
NONE_AT_ALL = ["-1", "+1", "1e3", "1_0", " 1", "1\n", "\u0661", "\u00b2", "0x1", "1.0", "\0", "1\0"]
TOO_LARGE = ["9" * 5000, "0" * 5000, "9" * 21, str(1 << 64), str(1 << 63)]


def refused(read):
    """Return a reader that returns None where it refuses in a sentence."""

    def find(text):
        try:
            return read(text)
        except UserError:
            return None

    return find


def header(name, attribute):
    return lambda text: attribute(caller(((name, text), ("auth-username", "ada"))))


def absent(number):
    return None if number == -1 else number


def borrowed(text):
    found = session_changes(
        csadm_pb2.SessionSpec(), {"borrow_limit": text}, (), before=SessionSpec()
    )
    return found["borrow_limit"]


def marked(text):
    feed = ChangeFeed(epoch="e")
    return feed.position_of(f"e-{text}")


def is_within(text):
    try:
        _check_length(text, 100)
    except TooLargeError:
        return None
    return "within"


READERS = {
    "auth-uid": header("auth-uid", lambda found: absent(found.user.uid)),
    "auth-gid": header("auth-gid", lambda found: absent(found.user.gid)),
    "attempts": header(
        "grpc-previous-rpc-attempts", lambda found: found.num_previous_attempts or None
    ),
    "priority": refused(parse_priority),
    "borrow limit": refused(borrowed),
    "cursor": refused(offset_of),
    "If-Match": refused(version_of),
    "mark of the feed": marked,
    "claim of a provider": _id,
    "csctl --priority": refused(typed_priority),
    "csctl --borrow": refused(lambda text: _properties(borrow=text, shares=None, members=None)),
    "csctl --systems": refused(_counts),
    "csctl --restart": refused(lambda text: parse_restart_policy(f"on=pod,limit={text}")),
    "csctl --array": refused(parse_indices),
}
TRIMMED = {
    "priority": (" 1", "1\n"),
    "csctl --systems": (" 1", "1\n"),
    "If-Match": (" 1", "1\n"),
}
"""Where blanks around a number are left out."""


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("text", [*NONE_AT_ALL, *TOO_LARGE], ids=lambda text: repr(text[:24]))
def test_what_is_no_integer_within_its_bound_is_none(name, text):
    if text in TRIMMED.get(name, ()):
        return
    assert READERS[name](text) is None


@pytest.mark.parametrize("text", TOO_LARGE, ids=lambda text: text[:24])
def test_a_body_said_to_be_larger_than_any_number_is_too_large(text):
    assert is_within("100") == "within"
    assert is_within("101") is None
    if text.strip("0"):
        assert is_within(text) is None


@pytest.mark.parametrize("text", ["9" * 5000, "nan", "inf", "-1", "0", "1e300", "x"])
def test_a_time_limit_is_a_number_of_seconds_that_a_clock_can_add(text):
    arguments = DebugArgs()
    arguments.debug_mgr.scheduler_hints["job_time_sec"] = text
    with pytest.raises(UserError, match="job_time_sec"):
        scheduler_hints(arguments)
    if text not in ("0", "x"):
        with pytest.raises(UserError, match="time limit"):
            DriverSpec(argv=("a",), work_dir="/", time_limit_seconds=float(text))
        with pytest.raises(UserError, match="time limit"):
            StartQuestion(num_systems=1, user=User(uid=0, gid=0), limit_seconds=float(text))


def test_what_a_caller_wrote_is_repeated_shortly():
    for read in (parse_priority, offset_of, version_of, borrowed):
        with pytest.raises(UserError) as caught:
            read("9" * 5000)
        assert len(str(caught.value)) < 300


def test_a_time_limit_of_thousands_of_digits_is_refused_where_it_is_typed():
    with pytest.raises(UserError, match="not understood"):
        parse_time_limit("9" * 5000 + "d")


def test_a_number_goes_up_to_its_bound():
    assert find_integer(str(MAX_ID), MAX_ID) == MAX_ID
    assert find_integer(str(MAX_ID + 1), MAX_ID) is None
    assert find_integer(str(MAX_POSITION), MAX_POSITION) == MAX_POSITION
    assert find_integer("007", 7) == 7
    assert find_integer("", 7) is None


def test_no_other_module_reads_digits_of_callers():
    reads = re.compile(r"\.is(decimal|digit|numeric)\(\)")
    found = [
        str(path.relative_to(ROOT))
        for package in ("api", "management", "wire", "core")
        for path in sorted((ROOT / "appliance" / package).rglob("*.py"))
        if reads.search(path.read_text())
    ]
    assert found == [
        "appliance/api/entry.py",  # whether a length is told at all
        "appliance/core/cluster/records.py",  # whether a directory is that of a loop
        "appliance/core/integers.py",
    ]
