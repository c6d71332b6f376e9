"""Every benchmark runs at a small size, and says every line that it promises.

What it says of speed means nothing, so a bar may be missed; one that could not be measured is an
error. `promised_lines.json` has the names of all lines, so that none is lost or renamed unseen.
The tables of parties are in `test_parties.py`.
"""

import os
import shutil
from pathlib import Path

import pytest

from benchmarks import engine_bars
from benchmarks.engine_bars import Part
from tests.benchmarks.promises import broken_promises
from tests.support.client import client_venv
from tests.support.kube_server import reason_to_skip

pytestmark = [pytest.mark.client, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
MAY_MAKE_NAMESPACES = os.geteuid() == 0 and shutil.which("ip") is not None
OTHERS = {
    "wafer": (),
    "csl": ("--small",),
    "larger_than_memory": ("--small",),
    "queue_simulator": ("--jobs", "300", "--queued", "300", "--processes", "1"),
    "expected_starts": ("--jobs", "40", "--seeds", "1", "--processes", "1"),
    "queue_throughput": ("--jobs", "20", "--queued", "5000", "--no-slurm"),
    "kubernetes_jobs": ("--small",),
}
"""What is no part of `engine_bars`, with its arguments."""
ELSEWHERE = {
    "engine": "test_parties.py",
    "engine_bars": "its parts are run here one by one",
    "published": "prints what `csl` and `wafer` measure; its lines are in tests/unit/benchmarks",
    "memory_growth": "trains thousands of steps; what it makes of them is in tests/unit/benchmarks",
    "installation": "installs everything: minutes of downloads and of pip",
}
OF_THE_ENGINE = [
    part for part in engine_bars.parts() if part.module.removeprefix("benchmarks.") not in ELSEWHERE
]
OVERHEAD = [part for part in engine_bars.parts() if part.name == "overhead"]
PARTS = {part.name: part for part in (*OF_THE_ENGINE, *OVERHEAD)}
PARTS |= {
    name: Part(name=name, module=f"benchmarks.{name}", arguments=arguments, num_bars=0)
    for name, arguments in OTHERS.items()
}


@pytest.mark.parametrize("name", PARTS)
def test_every_benchmark_measures_what_it_promises(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert client_venv()  # which traces the models
    if name == "kubernetes_jobs" and (reason := reason_to_skip()):
        pytest.skip(reason)
    broken = broken_promises(PARTS[name], capsys)
    if not MAY_MAKE_NAMESPACES:
        broken = [line for line in broken if not line.startswith("network_namespaces_")]
    assert broken == []


def test_every_benchmark_is_run_here_or_says_why_not() -> None:
    modules = {path.stem for path in (ROOT / "benchmarks").glob("*.py")} - {"__init__"}
    parts = {part.module.removeprefix("benchmarks.") for part in PARTS.values()}
    assert parts | ELSEWHERE.keys() == modules
