"""Trace buffers of the `<debug>` module."""

import struct

import pytest

from appliance.sdk.host.inspection import StoppedRun, _records
from appliance.sdk.symbols import HostCallError


def test_a_trace_holds_values_of_every_type_in_order():
    buffer = b"".join(
        (
            b"B\x07",
            b"?\x01",
            b"b\xff",
            b"H\x00" + struct.pack("<H", 513),
            b"f\x00" + struct.pack("<f", 1.5),
            b"e\x00" + struct.pack("<e", -2.0),
            b"t\x00" + (7 + (3 << 32)).to_bytes(6, "little"),
            b"s\x04abc\x00",
            b"s\x00",
            b"i\x00" + struct.pack("<i", -9),
        )
    )
    assert list(_records(buffer)) == [
        7,
        True,
        -1,
        513,
        1.5,
        -2.0,
        7 + (3 << 32),
        "abc",
        "",
        -9,
    ]


def test_a_trace_that_ends_within_a_value_or_is_none_is_refused():
    with pytest.raises(HostCallError, match="too small"):
        list(_records(b"I\x00\x01\x02"))
    with pytest.raises(HostCallError, match="unknown type '!'"):
        list(_records(b"!\x00\x01\x02"))


def test_memory_of_a_program_that_was_not_run_cannot_be_looked_at(tmp_path):
    with pytest.raises(HostCallError, match=r"No run of .* has been stopped"):
        StoppedRun(tmp_path)
