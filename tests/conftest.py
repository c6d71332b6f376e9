"""What holds for all tests."""

import gc
import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support import forked, kept_machine_code
from tests.support.run_report import RunReport
from tests.tiers import Tier, recorded_seconds

# How long an example takes, to be made or to be tried, says how busy the machine is, not whether
# the code is right; and what a run tests must not depend on chance. `HYPOTHESIS_PROFILE=search`
# looks for new counterexamples.
UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fixed", UNTIMED, derandomize=True)
settings.register_profile("search", UNTIMED)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))

# Images of containers often say that Python shall not keep its compiled modules. The tests start
# thousands of processes, and half of what one takes to start would go into compiling them anew.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Whoever starts the tests in the background of a script has interrupts ignored, and every process
# that they start would inherit it; tests interrupt some.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

gc.disable()  # until everything is collected


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a target of the Makefile say which one it is."""
    parser.addoption("--tier", type=Tier, help="says at the end where the time went")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest files first; what is in a file stays as it is.

    One that a process gets last keeps all others waiting. How long each took is what the last
    recorded run says (`tests/times`); files that are new to it come first. Those that share a
    Kubernetes API server come before all others, so that a process starts one and ends it once.
    """
    root = Path(__file__).parents[1]
    seconds = recorded_seconds(Tier.ALL)

    def place(item: pytest.Item) -> tuple[bool, float]:
        path = item.path.relative_to(root).as_posix()
        return not path.startswith("tests/kubernetes/"), -seconds.get(path, sys.maxsize)

    items.sort(key=place)


def pytest_collection_finish() -> None:
    """Let the collector of cycles leave alone what lives until the end.

    Modules and tests are two million objects; each full collection would look at all of them.
    """
    gc.collect()
    gc.freeze()
    gc.enable()
    _share_the_cores()


def _share_the_cores() -> None:
    """Compute with one thread where other processes of tests have the other cores.

    PyTorch's threads wait for each other in a loop: of two processes with two threads each on two
    cores, a third of the processor time went into that. What tests start is not concerned.
    """
    if "PYTEST_XDIST_WORKER" in os.environ and (torch := sys.modules.get("torch")):
        torch.set_num_threads(1)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Make what all processes of the run share, and tell of a failure when it happens.

    A run that is cut short never reaches its summary.
    """
    kept_machine_code.share()
    forked.share()
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or hasattr(config, "workerinput"):
        return
    config.pluginmanager.register(FailuresAtOnce(reporter), "failures-at-once")
    if tier := config.getoption("--tier"):
        config.pluginmanager.register(RunReport(tier, forked.directory()), "run-report")


class FailuresAtOnce:
    """Prints the end of a failed test's traceback beside the dots."""

    LINES = 25

    def __init__(self, reporter: pytest.TerminalReporter) -> None:
        self._reporter = reporter

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.outcome in ("passed", "skipped"):
            return
        self._reporter.write_line(f"\n{report.outcome} ({report.when}): {report.nodeid}")
        for line in report.longreprtext.splitlines()[-self.LINES :]:
            self._reporter.write_line(f"    {line}")
