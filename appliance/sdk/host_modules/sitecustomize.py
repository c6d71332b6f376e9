"""Takes this directory out of the environment, then does what another `sitecustomize` would.

So programs that `cs_python` runs start others as if it had not been there. An error of ours that
ends a program is told with the program's own lines alone, unless `cs_python --traceback` runs it.
"""

import os
import sys
import traceback
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from types import TracebackType

_SAVED = "WSC_CS_PYTHON_PATH"
_TRACEBACK = "WSC_CS_PYTHON_TRACEBACK"
_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def _leave_environment() -> None:
    if (before := os.environ.pop(_SAVED, None)) is None:
        return
    if before:
        os.environ["PYTHONPATH"] = before
    else:
        os.environ.pop("PYTHONPATH", None)


def _run_next() -> None:
    here = os.path.dirname(__file__)
    spec = PathFinder.find_spec(__name__, [path for path in sys.path if path != here])
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(module_from_spec(spec))


def _num_own_frames(trace: TracebackType | None) -> int:
    """How many frames of a traceback the program has before it calls the package."""
    count = 0
    while trace is not None:
        if trace.tb_frame.f_code.co_filename.startswith(_PACKAGE + os.sep):
            return count
        count, trace = count + 1, trace.tb_next
    return count


def _tell(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print an error; of one of ours only where the program called us, and what it says."""
    if not kind.__module__.startswith("appliance."):
        sys.__excepthook__(kind, error, trace)
        return
    lines = traceback.format_tb(trace, limit=_num_own_frames(trace))
    text = f"Traceback (most recent call last):\n{''.join(lines)}RuntimeError: {error}\n"
    sys.stderr.write(text)


if os.environ.pop(_TRACEBACK, None) is None:
    sys.excepthook = _tell
_leave_environment()
_run_next()
