"""Which unit test reaches which line, and how long each takes."""

import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from coverage import Coverage, CoverageData

from tests.worth.mutants import ROOT

_FILES = "WSC_WORTH_FILES"
_DATA, _SECONDS = "coverage", "seconds.json"
_NUM_PROCESSES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """What one run of the tests has recorded of those that passed.

    Attributes:
        tests: Tests by file and line.
        seconds: Processor time of each test, which other processes do not make longer.
    """

    tests: Mapping[tuple[str, int], Collection[str]]
    seconds: Mapping[str, float]

    def cheapest_first(
        self, path: str, line: int, limit_seconds: float, *, is_of: str = "", is_not_of: str = "-"
    ) -> list[str]:
        """Return the tests that reach a line, up to so many seconds together.

        Args:
            path: Of the file.
            line: Of the file, from 1.
            limit_seconds: What they may take; the cheapest is returned even if it takes longer.
            is_of: How their names begin.
            is_not_of: How they do not begin.
        """
        found: list[str] = []
        total = 0.0
        reaching = self.seconds.keys() & self.tests.get((path, line), ())
        some = [t for t in reaching if t.startswith(is_of) and not t.startswith(is_not_of)]
        for test in sorted(some, key=lambda test: (self.seconds[test], test)):
            total += self.seconds[test]
            if found and total > limit_seconds:
                break
            found.append(test)
        return found


def record(folder: Path, tests: Sequence[str], files: Collection[str]) -> None:
    """Run tests and record which of them reach the lines of some files, in a folder.

    A test that fails as it is notices nothing and is left out.
    """
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.worth.reach"]
    command += ["-n", str(_NUM_PROCESSES), "-p", "no:cacheprovider", *tests]
    told = {"folder": str(folder), "files": sorted(files)}
    environment = {**os.environ, _FILES: json.dumps(told)}
    done = subprocess.run(command, cwd=ROOT, env=environment, check=False)
    assert done.returncode in (0, 1), "the tests could not be run"


def read(folder: Path) -> Reach:
    """Return what each process of the tests recorded in a folder."""
    tests: dict[tuple[str, int], set[str]] = defaultdict(set)
    seconds: dict[str, float] = {}
    for recorded in sorted(folder.glob(f"*.{_SECONDS}")):
        seconds |= json.loads(recorded.read_text())
        data = CoverageData(basename=str(recorded).removesuffix(_SECONDS) + _DATA)
        data.read()
        for file in data.measured_files():
            path = str(Path(file).relative_to(ROOT))
            for line, contexts in data.contexts_by_lineno(file).items():
                tests[path, line].update(context for context in contexts if context)
    return Reach(tests=tests, seconds=seconds)


def is_recorded(folder: Path) -> bool:
    """Return whether tests have recorded in a folder."""
    return any(folder.glob(f"*.{_SECONDS}"))


class _Recorder:
    """Tells coverage which test runs."""

    def __init__(self, data: str, files: Sequence[str]) -> None:
        self._data = data
        self._seconds: dict[str, float] = defaultdict(float)
        self._failed: set[str] = set()
        self._coverage = Coverage(
            data_file=f"{data}.{_DATA}", include=[str(ROOT / file) for file in files]
        )
        self._coverage.erase()
        self._coverage.start()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._coverage.switch_context(item.nodeid)
        begun = time.process_time()
        try:
            return (yield)
        finally:
            self._seconds[item.nodeid] += time.process_time() - begun
            self._coverage.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self._coverage.stop()
        self._coverage.save()
        passed = {test: took for test, took in self._seconds.items() if test not in self._failed}
        Path(f"{self._data}.{_SECONDS}").write_text(json.dumps(passed))


def pytest_configure(config: pytest.Config) -> None:
    """Record, as a plugin of each process of the run that `record` starts."""
    if worker := getattr(config, "workerinput", {}).get("workerid"):
        told = json.loads(os.environ[_FILES])
        recorder = _Recorder(f"{told['folder']}/{os.getppid()}-{worker}", told["files"])
        config.pluginmanager.register(recorder, "reach")
