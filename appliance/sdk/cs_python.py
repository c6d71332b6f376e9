"""`cs_python`: Python with the SDK's host modules.

It becomes the Python that the appliance is installed in, with `host_modules` before every other
directory of its path. The `sitecustomize` there takes it out of the environment again, so that no
other Python, started by the program, sees these modules instead of an installed SDK.
"""

import os
import sys
from pathlib import Path

HOST_MODULES = Path(__file__).parent / "host_modules"
SYSTEM_VARIABLE = "WSC_SDK_SYSTEM"
"""Variable with the address of the system that an SDK job holds, where there is one."""

SAVED_PATH = "WSC_CS_PYTHON_PATH"
"""Variable with the path as it was, for `sitecustomize`."""


def main() -> int:
    """Become Python; returns only if that is not possible."""
    before = os.environ.get("PYTHONPATH", "")
    environment = {
        **os.environ,
        SAVED_PATH: before,
        "PYTHONPATH": os.pathsep.join(part for part in (str(HOST_MODULES), before) if part),
    }
    try:
        os.execve(sys.executable, [sys.executable, *sys.argv[1:]], environment)
    except OSError as error:
        sys.stderr.write(f"cs_python: error: {sys.executable} cannot be run: {error}.\n")
    return 126


if __name__ == "__main__":
    sys.exit(main())
