"""A process that has imported everything, and forks one management after the other.

So a test can kill management hundreds of times without paying for its imports each time. Commands
come on standard input, one line each: `start`, and `kill`, which ends the present one with SIGKILL
and waits until it is gone. What is answered: `ready PID` once it serves.
"""

import asyncio
import ctypes
import json
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import NoReturn

from appliance.core.clock import SystemClock
from appliance.management.options import ManagementOptions
from appliance.management.server import Management
from tests.support.zygote import fork_by_order


async def serve(options: ManagementOptions) -> None:
    management = Management(options, SystemClock())
    await management.start(dashboard_root="http://localhost:1")
    os.write(1, f"ready {os.getpid()}\n".encode())
    await asyncio.Event().wait()


def be_management(options: ManagementOptions) -> NoReturn:
    prctl = ctypes.CDLL(None).prctl
    prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: it ends with the zygote
    try:
        asyncio.run(serve(options))
    finally:
        traceback.print_exc()
        os.write(1, b"failed\n")
        os._exit(1)


def main() -> None:
    fields = json.loads(sys.argv[1])
    fields["data_dir"], fields["runtime_root"] = (
        Path(fields["data_dir"]),
        Path(fields["runtime_root"]),
    )
    fields["entry_modules"] = tuple(map(tuple, fields["entry_modules"]))
    fields["preload"] = tuple(fields["preload"])
    options = ManagementOptions(**fields)
    fork_by_order(lambda: be_management(options))


if __name__ == "__main__":
    main()
