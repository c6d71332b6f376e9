"""What each session of a job looks like: its profile, and its picture of the wafer."""

import pytest

from appliance.files.profiles import (
    find_profile,
    find_wafer_picture,
    keep_profile,
    keep_wafer_picture,
)
from protos.appliance.appliance_service_pb2 import FinalizeResponse


def keep_trace(work_dir, session, name):
    keep_profile(work_dir, session, [FinalizeResponse.EventTrace(name=name, dur=1.0)])


def find_trace(work_dir, session=None):
    found = find_profile(work_dir, session)
    return None if found is None else "".join(event.name for event in found.trace_events)


@pytest.mark.parametrize(
    ("keep", "find", "file"),
    [
        (keep_wafer_picture, find_wafer_picture, "wafer-{}.json"),
        (keep_trace, find_trace, "profile-{}.bin"),
    ],
)
class TestOfASession:
    def test_each_keeps_its_own_and_alike_ones_share_a_file(self, tmp_path, keep, find, file):
        assert find(tmp_path) is None
        for session, text in ((1, "train"), (2, "evaluate"), (4, "train"), (5, "other")):
            keep(tmp_path, session, text)
        assert find(tmp_path) == "other"
        keep(tmp_path, 6, "train")
        assert [find(tmp_path, session) for session in (1, 2, 3)] == ["train", "evaluate", None]
        assert find(tmp_path) == "train"
        alike = (tmp_path / file.format(number) for number in (6, 4))
        assert next(alike).samefile(next(alike))
        for session in (9, 10):
            keep(tmp_path, session, str(session))
        assert find(tmp_path) == "10"

    def test_a_job_that_is_queued_again_replaces_its_own_alone(self, tmp_path, keep, find, file):
        keep(tmp_path, 1, "train")
        keep(tmp_path, 2, "train")
        keep(tmp_path, 1, "changed")
        assert (find(tmp_path, 1), find(tmp_path, 2)) == ("changed", "train")
