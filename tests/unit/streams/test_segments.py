"""Segments in files without a name."""

import os

import pytest

from appliance.core.errors import ClusterError
from appliance.streams.segment import create_file_segment


def test_a_segment_that_the_disk_cannot_hold_is_refused_with_both_numbers(tmp_path):
    needs = r"'state' needs 4,611,686,018,427,387,904 bytes in .*, where [0-9,]+ are free"
    before = os.listdir("/proc/self/fd")
    with pytest.raises(ClusterError, match=needs):
        create_file_segment(tmp_path, "state", 1 << 62)
    assert os.listdir("/proc/self/fd") == before
    assert not any(tmp_path.iterdir())


def test_a_segment_in_a_file_is_zeroed_of_its_size_and_has_no_name(tmp_path):
    descriptor = create_file_segment(tmp_path / "work", "state", 4096)
    try:
        assert os.pread(descriptor, 8192, 0) == bytes(4096)
        assert not any((tmp_path / "work").iterdir())
    finally:
        os.close(descriptor)
