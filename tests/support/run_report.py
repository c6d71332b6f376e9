"""What a run of one tier says before its last line: where the time went, what was left out."""

import json
import os
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.support import start_costs
from tests.tiers import BUDGET_SECONDS, LEFT_OUT, Tier

ROOT = Path(__file__).parents[2]
_NUM_SLOWEST = 10


class RunReport:
    """Adds up what the files of a run take, and the starts of what is slow to start.

    Args:
        tier: What is run.
        directory: Of the run; processes of tests note starts in a file there.
        times: Directory of what is kept.
    """

    def __init__(self, tier: Tier, directory: Path, times: Path = ROOT / "build" / "times") -> None:
        self._tier, self._times = tier, times
        self._begun = time.monotonic()
        self._files: dict[str, float] = defaultdict(float)
        self._starts = directory / "starts"
        os.environ[start_costs.VARIABLE] = str(self._starts)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add what a part of a test took to its file."""
        self._files[report.nodeid.partition("::")[0]] += report.duration

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print where the time went, and keep it."""
        kept = self._kept()
        terminalreporter.section(f"where the time of {self._tier} went")
        for file, seconds in self._slowest()[:_NUM_SLOWEST]:
            terminalreporter.write_line(f"{seconds:8.1f} s  {file}")
        for kind, (count, seconds) in kept["starts"].items():
            terminalreporter.write_line(f"{seconds:8.1f} s  {count} starts of {kind}")
        terminalreporter.write_line(
            f"{kept['seconds']:8.1f} s  in all; {BUDGET_SECONDS[self._tier]:,.0f} s are meant for "
            "two cores that do nothing else"
        )
        terminalreporter.write_line(f"left out: {LEFT_OUT[self._tier]}")
        self._times.mkdir(parents=True, exist_ok=True)
        path = self._times / f"{self._tier}.json"
        path.write_text(json.dumps(kept, indent=1) + "\n")
        terminalreporter.write_line(f"kept: {os.path.relpath(path, ROOT)}")

    def _slowest(self) -> list[tuple[str, float]]:
        return sorted(self._files.items(), key=lambda item: -item[1])

    def _kept(self) -> dict[str, Any]:
        starts = start_costs.read(self._starts)
        slowest = {file: round(seconds, 1) for file, seconds in self._slowest()}
        total = round(time.monotonic() - self._begun, 1)
        return {"seconds": total, "files": slowest, "starts": starts}
