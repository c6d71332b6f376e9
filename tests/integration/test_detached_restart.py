"""A detached run does not notice that management was killed and came back."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from appliance.management.store.instance import Instance
from tests.support.appliance_process import ROOT, run_command, wait_for
from tests.support.ports import free_port


def test_a_detached_run_survives_management_and_so_does_who_follows_it(tmp_path: Path) -> None:
    go = tmp_path / "go"
    wait = f"echo begun; until [ -e {go} ]; do sleep 0.1; done; echo done"
    data = tmp_path / "data"
    up = ("up", "--data-dir", str(data), "--port", str(free_port()), "--rest-port", "0")
    answer = run_command(*up)
    assert answer.returncode == 0, answer.stderr
    try:
        state = Instance(data).find_state()
        assert state is not None
        csctl = [sys.executable, "-m", "csctl", "--csconfig", state.config_path]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        said = subprocess.run(
            [*csctl, "submit", "--", "sh", "-c", wait],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
        ).stdout
        found = re.search(r"job/(wsjob-\w+)", said)
        assert found, said
        follower = subprocess.Popen(
            [*csctl, "attach", found[1]],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert follower.stdout is not None
        assert follower.stdout.readline() == "begun\n"

        os.kill(state.pid, signal.SIGKILL)
        wait_for(lambda: not Instance(data).is_running(), what="the end of management")
        answer = run_command(*up)
        assert answer.returncode == 0, answer.stderr
        go.touch()

        rest, err = follower.communicate(timeout=300)
        assert follower.returncode == 0, err
        assert rest == "done\n"
    finally:
        run_command("down", "--data-dir", str(data))
