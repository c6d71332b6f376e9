"""The directory in which the simulator keeps its machine code.

`python -m appliance.sdk.host.machine_code_directory DIRECTORY` fills one.

Compiling it takes half a second, reading it two milliseconds. Who can write to the directory
decides what every program executes that reads there, so users have directories of their own, and
the programs of SDK jobs one that the appliance has filled and that they only read.
"""

import os
import sys
from pathlib import Path

DIRECTORY_VARIABLE = "WSC_SDK_MACHINE_CODE"
"""Variable with the directory, where another than the user's own is to be read."""


def machine_code_directory() -> str:
    """Return the directory for the programs of this process."""
    if told := os.environ.get(DIRECTORY_VARIABLE):
        return told
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return str(Path(cache) / "wsc" / "machine-code")


def main() -> int:
    """Fill a directory that others read."""
    from appliance.fabric.native.loader import load_kernel  # noqa: PLC0415 - as in `runtime`

    os.umask(0o022)
    load_kernel(sys.argv[1])
    return 0


if __name__ == "__main__":
    sys.exit(main())
