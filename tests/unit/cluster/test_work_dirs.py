"""What launchers put into a job's work directory."""

from appliance.cluster.work_dirs import write_request


def test_the_request_is_written_for_the_owner_alone_and_again_when_the_job_runs_again(tmp_path):
    file = tmp_path / "jobs" / "wsjob-a" / "request.bin"
    write_request(file.parent, b"a longer request")
    assert file.stat().st_mode & 0o777 == 0o600
    write_request(file.parent, b"request")
    assert file.read_bytes() == b"request"


def test_for_a_job_without_a_request_nothing_is_made(tmp_path):
    write_request(tmp_path / "wsjob-a", b"")
    assert list(tmp_path.iterdir()) == []
