"""One directory in which the pods of a whole test run keep the machine code of their loops.

An appliance keeps it for its next jobs, in its data directory. The tests start a hundred
appliances, whose pods would each compile the same loops anew.
"""

import functools
import os
import tempfile
from pathlib import Path

_VARIABLE = "WSC_TEST_MACHINE_CODE"


@functools.cache
def _made() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="wsc-machine-code-")


def directory() -> Path:
    """Return the directory: of the process that shares one, or else this process's own."""
    return Path(os.environ.get(_VARIABLE) or _made().name)


def share() -> None:
    """Have the processes that this one starts keep theirs in its directory."""
    os.environ[_VARIABLE] = str(directory())


def link_into(data_dir: Path) -> None:
    """Have an appliance of this user use it, unless it has run before."""
    link = data_dir / "machine-code"
    if not link.is_symlink() and not link.exists():
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        link.symlink_to(directory())
