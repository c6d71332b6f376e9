"""A process that has imported everything, and forks one management after the other.

So a test can kill management hundreds of times without paying for its imports each time. Commands
come on standard input, one line each: `start`, and `kill`, which ends the present one with SIGKILL
and waits until it is gone. What is answered: `ready PID` once it serves.
"""

import asyncio
import ctypes
import functools
import os
import signal
import sys
import traceback
from typing import NoReturn

from appliance.cluster.process_launcher import PodPrograms
from appliance.core.clock import SystemClock
from appliance.core.dataclass_json import from_json
from appliance.core.ids import Role
from appliance.management.options.combined_settings import ManagementOptions
from appliance.management.pod_side import open_pod_side
from appliance.management.server import RestPlace, running_management
from appliance.management.store.own_process import run_event_loop
from tests.support.zygote import fork_by_order


async def serve(options: ManagementOptions) -> None:
    rest = RestPlace(url="http://localhost:1")
    programs = PodPrograms(
        entry_modules=dict.fromkeys(Role, "tests.support.counted_pod"), preload=("grpc",)
    )
    open_pods = functools.partial(open_pod_side, programs=programs)
    async with running_management(options, SystemClock(), rest, open_pods=open_pods):
        os.write(1, f"ready {os.getpid()}\n".encode())
        await asyncio.Event().wait()


def be_management(options: ManagementOptions) -> NoReturn:
    prctl = ctypes.CDLL(None).prctl
    prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: it ends with the zygote
    try:
        run_event_loop(serve(options))
    finally:
        traceback.print_exc()
        os.write(1, b"failed\n")
        os._exit(1)


def main() -> None:
    options = from_json(ManagementOptions, sys.argv[1])
    fork_by_order(lambda: be_management(options))


if __name__ == "__main__":
    main()
