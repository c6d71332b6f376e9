"""Gives each start of a detached run an artifact directory of its own; Python imports it first.

The public client lowers a program through files with fixed names, in
`<artifact directory>/executors/000001`. Scripts that run at once in one directory (the runs of an
array, a restart beside its predecessor) would read each other's program there. Here the client's
`DataExecutor` uses `<artifact directory>/runs/<job>/<restart>/executors/...` instead.

The client also hands the paths of those files to a shell without quoting them. Where a path has a
character that a shell reads, such as a space, the executor is told of the directory by a symbolic
link without one.

It runs in the user's Python, of whatever version, without the appliance's packages: only the
standard library is imported. Afterwards another `sitecustomize` of the user's takes place.
"""

import atexit
import importlib.util
import os
import re
import shutil
import sys
import tempfile
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, Dict, Optional  # noqa: UP035

_MODULE = "cerebras.pytorch.utils.data.data_executor"
_METHOD = "_setup_artifact_dir"
_PLAIN = re.compile(r"[-\w./@%+=:,#~]*")
"""Paths that a shell leaves as they are."""

_links: Dict[str, int] = {}  # noqa: UP006
"""Directories of links, each with the process that has made it."""


class _Finder(MetaPathFinder):
    """Waits for the import of the client's module, and changes it then.

    Args:
        run: Path of the run's own directory below the script's artifact directory.
    """

    def __init__(self, run: str) -> None:
        self._run = run

    # `Any`: Python passes a search path and a module that are of no concern here.
    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Optional[ModuleSpec]:  # noqa: ANN401, UP045
        """Return the spec that others find for the module, and None for any other."""
        if fullname != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            _change_after_import(spec.loader, self._run)
        return spec


# `Any`: the loader of a module of unknown kind, and a class of the client.
def _change_after_import(loader: Any, run: str) -> None:  # noqa: ANN401
    import_module = loader.exec_module

    def import_and_change(module: ModuleType) -> None:
        import_module(module)
        executor = getattr(module, "DataExecutor", None)
        if hasattr(executor, _METHOD):
            _separate(executor, run)
        else:
            sys.stderr.write(
                f"[driver] this release of the client has no DataExecutor.{_METHOD}: if several "
                "runs share this directory, give each an artifact_dir of its own\n"
            )

    loader.exec_module = import_and_change


def _separate(executor_class: Any, run: str) -> None:  # noqa: ANN401
    """Have executors on the cluster's backend use the run's own directory."""
    set_up = getattr(executor_class, _METHOD)

    def set_up_own(executor: Any) -> None:  # noqa: ANN401
        backend = executor.backend
        if not backend.is_csx:
            set_up(executor)
            return
        shared = backend.artifact_dir
        backend.artifact_dir = _plain(os.path.join(str(shared), run))
        try:
            set_up(executor)
        finally:
            backend.artifact_dir = shared

    setattr(executor_class, _METHOD, set_up_own)


def _plain(directory: str) -> str:
    """Return a directory, or a link to it if a shell would read its path otherwise."""
    path = os.path.abspath(directory)
    if _PLAIN.fullmatch(path):
        return directory
    os.makedirs(path, exist_ok=True)
    place = tempfile.mkdtemp(prefix="wsc-artifacts-", dir="/tmp")
    _links[place] = os.getpid()
    link = os.path.join(place, "own")
    os.symlink(path, link)
    return link


def _remove_links() -> None:
    """Remove the links as the script ends, and not as a process ends that it has forked."""
    for place, owner in _links.items():
        if os.getpid() == owner:
            shutil.rmtree(place, ignore_errors=True)


def _run_next() -> None:
    """Leave the search path, and run the `sitecustomize` that stands behind this one on it."""
    here = os.path.dirname(os.path.abspath(__file__))
    places = [os.path.abspath(each) for each in sys.path]
    behind = sys.path[places.index(here) + 1 :] if here in places else sys.path
    sys.path[:] = [each for each in sys.path if os.path.abspath(each) != here]
    spec = PathFinder.find_spec(__name__, behind)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


if __name__ == "sitecustomize":  # not where tools import it under its full name
    if driver := os.environ.get("WSC_DRIVER"):
        restart = os.environ.get("WSC_RESTART_COUNT", "0")
        atexit.register(_remove_links)  # the first is called last: the client still writes there
        sys.meta_path.insert(0, _Finder(os.path.join("runs", driver, restart)))
    _run_next()
