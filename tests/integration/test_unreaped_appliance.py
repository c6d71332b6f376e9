"""`appliance down` in places where nobody reaps processes."""

import subprocess
import sys
from pathlib import Path

from appliance.management.store.instance import Instance
from tests.support.waiting import wait_until

HOLDER = """
import subprocess, sys, time
held = subprocess.Popen([sys.executable, "-c", sys.argv[1], sys.argv[2]])
time.sleep(600)
"""
HELD = """
import os, signal, sys
from pathlib import Path
from appliance.management.store.instance import Instance, InstanceState
instance = Instance(Path(sys.argv[1]))
instance.acquire()
words = dict.fromkeys(("address", "rest_url", "config_path", "runtime_root"), "")
instance.write_state(InstanceState(pid=os.getpid(), num_systems=1, **words))
signal.alarm(300)
signal.pause()
"""


def test_an_appliance_that_nobody_reaps_has_ended(tmp_path: Path) -> None:
    parent = subprocess.Popen([sys.executable, "-c", HOLDER, HELD, str(tmp_path)])
    try:
        wait_until(
            lambda: Instance(tmp_path).find_state() is not None, seconds=60, what="the state"
        )
        instance = Instance(tmp_path)
        assert instance.stop()
        assert not instance.is_running()
        assert instance.find_state() is None
    finally:
        parent.kill()
        parent.wait()
