"""What is removed of a job's traces, in a place where everybody may make something."""

import os
import secrets
from pathlib import Path

from appliance.cluster.process_tree import remove_traces

SHARED = Path("/dev/shm")


def test_files_of_a_job_are_removed_and_what_strangers_call_by_its_name_does_no_harm(
    tmp_path: Path,
) -> None:
    job = f"wsjob-test{secrets.token_hex(8)}"
    theirs = SHARED / f"a-trap-{job}"
    ours = [SHARED / f"wsc-{job}-{number}" for number in range(2)]
    other = SHARED / f"wsc-wsjob-other{secrets.token_hex(8)}"
    sockets = tmp_path / job
    sockets.mkdir()
    (sockets / "weight-0.sock").touch()
    for path in (*ours, other):
        path.touch()
    theirs.mkdir()
    (theirs / "kept").touch()
    try:
        remove_traces(job, sockets)
        assert not any(path.exists() for path in (*ours, sockets))
        assert (theirs / "kept").exists()
        assert other.exists()
    finally:
        (theirs / "kept").unlink()
        theirs.rmdir()
        os.unlink(other)
