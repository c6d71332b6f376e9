"""A role for tests of what a pod runs in: it says what it is told, and ends as it is told."""

import os
import signal
import subprocess
import sys
import threading

from appliance.core.pods.pod_spec import PodSpec


def run_pod(spec: PodSpec) -> int:
    print(f"{spec.member} at {spec.options.stream_host or 'home'} in {os.getcwd()}", flush=True)
    print("and what went wrong", file=sys.stderr, flush=True)
    match (spec.work_dir / "ends").read_text():
        case "by itself":
            return 3
        case "by a signal":
            os.kill(os.getpid(), signal.SIGKILL)
        case "after an orphan":
            subprocess.Popen(["sh", "-c", "sleep 0.1 & exit 0"]).wait()
            return 0
    ends = threading.Event()
    if (spec.work_dir / "ends").read_text() != "by the signal":
        signal.signal(signal.SIGTERM, lambda *_: ends.set())
    print("waiting", flush=True)
    ends.wait()
    return 7
