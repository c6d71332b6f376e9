"""The pictures of the wafer, one for each session of a job."""

from appliance.wire.profiles import find_wafer_picture, keep_wafer_picture, pictured_sessions


def test_each_session_keeps_its_picture_and_alike_ones_share_a_file(tmp_path):
    for session, text in ((1, "train"), (2, "evaluate"), (4, "train"), (5, "other")):
        keep_wafer_picture(tmp_path, session, text)
    keep_wafer_picture(tmp_path, 6, "train")
    assert pictured_sessions(tmp_path) == [1, 2, 4, 5, 6]
    assert find_wafer_picture(tmp_path, 2) == "evaluate"
    assert find_wafer_picture(tmp_path, 3) is None
    assert (tmp_path / "wafer-6.json").samefile(tmp_path / "wafer-4.json")


def test_a_job_that_is_queued_again_replaces_a_picture_and_not_those_that_shared_it(tmp_path):
    keep_wafer_picture(tmp_path, 1, "train")
    keep_wafer_picture(tmp_path, 2, "train")
    keep_wafer_picture(tmp_path, 1, "changed")
    assert find_wafer_picture(tmp_path, 1) == "changed"
    assert find_wafer_picture(tmp_path, 2) == "train"
