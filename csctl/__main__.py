"""The process of csctl: fast start and exit, around `csctl.command_line.running`.

Half of the processor time of a short command would be spent on modules that csctl never uses, and
some of the rest on garbage collection at exit. The measures here apply to this process only, not to
programs that import csctl.
"""

import contextlib
import gc
import importlib
import importlib.util
import os
import sys
import threading
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NoReturn

_UNUSED = (
    "asyncio",  # gRPC's core names it, for its asynchronous half
    "google.protobuf.internal.python_message",  # for those without protobuf's own machine code
)
_UNUSED_PART = ("grpc", "aio")

_COLLECTOR_THRESHOLD = 50_000

_LOADING = threading.RLock()


class _Later(ModuleType):
    """A module that is loaded when something of it is asked for.

    `importlib.util.LazyLoader` would load it at the first `import` that names it already.
    """

    def __init__(self, spec: ModuleSpec) -> None:
        super().__init__(spec.name)
        self._is_loading = False
        self.__spec__, self.__loader__, self.__package__ = spec, spec.loader, spec.parent
        if spec.submodule_search_locations is not None:
            self.__path__ = spec.submodule_search_locations

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the module has
        with _LOADING:
            if type(self) is _Later:
                if self._is_loading:  # by this thread: what is not there yet, is not there
                    raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
                self._load()
        return getattr(self, name)

    def _load(self) -> None:
        spec = self.__spec__
        assert spec is not None
        assert spec.loader is not None
        self._is_loading = True
        spec.loader.exec_module(self)
        del self._is_loading
        self.__class__ = ModuleType  # type: ignore[assignment]  # from now on the module itself


def main() -> NoReturn:
    """Run the command line, and end the process with its exit code."""
    gc.set_threshold(_COLLECTOR_THRESHOLD)
    _leave_for_later()
    code = importlib.import_module("csctl.command_line.running").main()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):  # what was to be said, the program has said
                stream.flush()
    # The command has closed what it has opened, and printed what it had to say; taking the
    # interpreter apart piece by piece is of no use to anybody.
    os._exit(code)


def _leave_for_later() -> None:
    specs = [importlib.util.find_spec(name) for name in _UNUSED]
    package, part = _UNUSED_PART
    # To find a part by its name would import the package.
    if (found := importlib.util.find_spec(package)) is not None:
        for place in found.submodule_search_locations or ():
            path = os.path.join(place, part, "__init__.py")
            specs.append(importlib.util.spec_from_file_location(f"{package}.{part}", path))
    for spec in specs:
        if spec is not None:
            sys.modules.setdefault(spec.name, _Later(spec))


if __name__ == "__main__":
    main()
