"""A pod role for tests: does what its options say, without any of the real roles' imports."""

import os
import subprocess
import sys
import time
from pathlib import Path

from appliance.core.cluster.pods import PodSpec
from tests.support.files import put


def run_pod(spec: PodSpec) -> int:
    print("pod", spec.name, "runs", flush=True)
    match spec.options.get("behaviour", "wait"):
        case "exit":
            return int(spec.options["exit_code"])
        case "raise":
            raise RuntimeError("the test role raises")
        case "streamer":
            # A child that leaves the pod's session, as a user's program may.
            child = subprocess.Popen(
                [sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True
            )
            (spec.runtime_dir / "child").write_text(str(child.pid))
    Path(f"/dev/shm/{spec.job}-{spec.role.value}-{spec.index}").write_text("held")
    put(spec.runtime_dir / f"{spec.role.value}-{spec.index}.ready", str(os.getpid()))
    while True:
        time.sleep(60)  # noqa: TID251 - stands in for work
