"""A process that has imported everything, and forks one controller after the other.

So a test can kill it many times without paying for its imports each time. Commands come on
standard input, one line each: `start`, and `kill`, which ends the present one with SIGKILL and
waits until it is gone. What is answered: `ready` once it serves, and `killed`.
"""

import ctypes
import os
import signal
import sys
import threading
import traceback
from pathlib import Path
from typing import NoReturn

import kubernetes  # noqa: F401 - `ApiServer` imports it when it connects

from appliance.cluster.kubernetes.api import ApiServer
from tests.support.kube_harness import running_kube_harness
from tests.support.kube_jobs import make_options
from tests.support.zygote import fork_by_order


def be_controller(directory: Path) -> NoReturn:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: it ends with the zygote
    try:
        with running_kube_harness(directory, ApiServer.connect(), make_options(directory)):
            os.write(1, b"ready\n")
            threading.Event().wait()
    finally:
        traceback.print_exc()
        os.write(1, b"failed\n")
        os._exit(1)


def main() -> None:
    directory = Path(sys.argv[1])
    fork_by_order(lambda: be_controller(directory))


if __name__ == "__main__":
    main()
