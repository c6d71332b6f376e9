"""Runs unit tests on a mutant, in a process that was forked with what they import from others."""

import contextlib
import importlib
import importlib.machinery
import os
import select
import shutil
import signal
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from types import CodeType

from tests.support.waiting import patience
from tests.worth.mutants import ROOT, Mutant

_IMPORTED = ("pytest", "numpy", "torch", "grpc", "sqlalchemy", "pydantic")
_NATIVE = "appliance/fabric/native"
_CHECK_SECONDS = 1800.0


class Outcome(StrEnum):
    """What became of a mutant."""

    KILLED = "killed"
    HUNG = "killed by time"
    SURVIVED = "survived"
    UNREACHED = "not reached"
    INVALID = "not compiled"


def prepare() -> None:
    """Import what every test imports and no mutant changes."""
    for module in _IMPORTED:
        importlib.import_module(module)


def run(mutant: Mutant, tests: Sequence[str], *, seconds: float) -> Outcome:
    """Run tests on a mutant until the first fails.

    Args:
        mutant: It.
        tests: Ids of tests, in the order in which they are to run.
        seconds: After so many it counts as killed: the tests hang.
    """
    if not tests:
        return Outcome.UNREACHED
    if (pid := os.fork()) == 0:
        code = _NOT_RUN
        with contextlib.suppress(BaseException):
            code = _test(mutant, tests)
        os._exit(code)
    with contextlib.closing(os.fdopen(os.pidfd_open(pid))) as end:
        if not select.select([end], [], [], seconds)[0]:
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return Outcome.HUNG
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    outcome = _OUTCOMES.get(code)
    assert outcome is not None, f"the tests of {mutant} could not be run: pytest ended with {code}"
    return outcome


_NOT_COMPILED, _NOT_RUN = 99, 98
_OUTCOMES = {
    0: Outcome.SURVIVED,
    1: Outcome.KILLED,
    2: Outcome.KILLED,  # a module of tests cannot be imported
    4: Outcome.KILLED,  # nor can that of a test which is named
    _NOT_COMPILED: Outcome.INVALID,
    **{-number: Outcome.KILLED for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGFPE)},
}


def check(mutant: Mutant, tests: Sequence[str]) -> None:
    """Check that tests pass on a mutant whose token stays as it is.

    Raises:
        AssertionError: They do not, so what they say of others means nothing.
    """
    unchanged = replace(mutant, new=mutant.old)
    outcome = run(unchanged, tests, seconds=_CHECK_SECONDS)
    assert outcome is Outcome.SURVIVED, f"{outcome}: the tests of {mutant} fail without a change"


def _test(mutant: Mutant, tests: Sequence[str]) -> int:
    import pytest

    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    if mutant.path.startswith(_NATIVE) and not mutant.path.endswith(".py"):
        if not _build_kernel(mutant):
            return _NOT_COMPILED
    else:
        _load_changed(mutant)
    limit = str(patience(120))
    options = ("-x", "-q", "-n", "0", "-p", "no:cacheprovider", "--timeout", limit)
    return int(pytest.main([*options, *tests]))


def _load_changed(mutant: Mutant) -> None:
    """Have the mutant's module made from the changed text."""
    loader = importlib.machinery.SourceFileLoader
    original, path = loader.get_code, str(ROOT / mutant.path)

    def get_code(self: importlib.machinery.SourceFileLoader, name: str) -> CodeType | None:
        if self.path != path:
            return original(self, name)
        return compile(mutant.source(), path, "exec", dont_inherit=True)

    loader.get_code = get_code  # type: ignore[method-assign]


def _build_kernel(mutant: Mutant) -> bool:
    """Build the changed kernel of the fabric, and have it loaded; False if it is no program."""
    from appliance.fabric.native import build, loader

    folder = Path(tempfile.mkdtemp(prefix="wsc-mutant-"))
    try:
        shutil.copytree(ROOT / _NATIVE, folder, dirs_exist_ok=True)
        (folder / Path(mutant.path).name).write_text(mutant.source())
        here, build.HERE = build.HERE, folder
        code = build.build()
        build.HERE = here
    except (OSError, build.subprocess.CalledProcessError):
        return False
    finally:
        shutil.rmtree(folder)
    loader._bitcode = lambda: code
    return True
