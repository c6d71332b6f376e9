"""Takes this directory out of the environment, then does what another `sitecustomize` would.

So programs that `cs_python` runs start others as if it had not been there.
"""

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

_SAVED = "WSC_CS_PYTHON_PATH"


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


_leave_environment()
_run_next()
