"""`cs_python`: Python with the SDK's host modules.

It becomes the Python that the appliance is installed in, with `host_modules` and the packages of
`host_packages` before every other directory of its path. The `sitecustomize` there takes them out
of the environment again, so that no other Python, started by the program, sees these modules
instead of an installed SDK.
"""

import os
import sys
from pathlib import Path

from appliance.sdk.host_packages import HostPackagesError, directory

HOST_MODULES = Path(__file__).parent / "host_modules"
SYSTEM_VARIABLE = "WSC_SDK_SYSTEM"
"""Variable with the address of the system that an SDK job holds, where there is one."""

SAVED_PATH = "WSC_CS_PYTHON_PATH"
"""Variable with the path as it was, for `sitecustomize`."""

TRACEBACK_OPTION = "--traceback"
"""The first argument of who wants our own lines too before an error."""

TRACEBACK_VARIABLE = "WSC_CS_PYTHON_TRACEBACK"
"""Variable that tells `sitecustomize` so."""


def main() -> int:
    """Become Python; returns only if that is not possible."""
    before = os.environ.get("PYTHONPATH", "")
    try:
        packages = directory()
    except (HostPackagesError, OSError) as error:
        sys.stderr.write(f"cs_python: error: {error}\n")
        return 2
    arguments = sys.argv[1:]
    wants_traceback = arguments[:1] == [TRACEBACK_OPTION]
    parts = (str(HOST_MODULES), str(packages or ""), before)
    environment = {
        **os.environ,
        SAVED_PATH: before,
        "PYTHONPATH": os.pathsep.join(part for part in parts if part),
        **({TRACEBACK_VARIABLE: "1"} if wants_traceback else {}),
    }
    try:
        os.execve(sys.executable, [sys.executable, *arguments[wants_traceback:]], environment)
    except OSError as error:
        sys.stderr.write(f"cs_python: error: {sys.executable} cannot be run: {error}.\n")
    return 126


if __name__ == "__main__":
    sys.exit(main())
