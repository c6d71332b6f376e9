"""What launchers put into a job's work directory."""

from appliance.cluster.work_dirs import write_request


def test_the_request_is_written_whatever_an_earlier_attempt_has_left(tmp_path):
    directory = tmp_path / "jobs" / "wsjob-a"
    directory.mkdir(parents=True)
    (directory / "request.bin").write_bytes(b"half of a longer request")
    write_request(directory, b"request")
    (file,) = directory.iterdir()
    assert (file.name, file.read_bytes()) == ("request.bin", b"request")


def test_a_job_that_is_launched_again_keeps_the_file_that_its_pods_may_be_reading(tmp_path):
    write_request(tmp_path / "wsjob-a", b"request")
    file = tmp_path / "wsjob-a" / "request.bin"
    before = file.stat()
    assert before.st_mode & 0o777 == 0o600
    write_request(file.parent, b"request")
    after = file.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_for_a_job_without_a_request_nothing_is_made(tmp_path):
    write_request(tmp_path / "wsjob-a", b"")
    assert list(tmp_path.iterdir()) == []
