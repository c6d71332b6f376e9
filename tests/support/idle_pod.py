"""A pod role for tests: does what a file says, without any of the real roles' imports."""

import os
import subprocess
import sys
import time
import weakref
from pathlib import Path

from appliance.core.pods.pod_spec import PodSpec
from tests.support.files import put

weakref.finalize(PodSpec, print, "of its fork server")  # which imports this before any pod


def run_pod(spec: PodSpec) -> int:
    print("pod", spec.name, "runs", flush=True)
    told = spec.work_dir / f"{spec.role.value}.behaviour"
    match told.read_text() if told.exists() else "wait":
        case "exit":
            return 3
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
