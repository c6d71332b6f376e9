"""Every benchmark runs at a small size, with every party, and says every line that it promises.

What it says of speed means nothing, so a bar may be missed; one that could not be measured is an
error, as is a party that does not run or that trains something else than the others.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import engine_bars
from benchmarks.engine import GROUPS, NEEDS_CUDA, SHAPES, SMALL_SHAPES, demands, groups_of
from tests.support.client import client_venv

pytestmark = [pytest.mark.client, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
BASELINES = Path.home() / ".cache" / "wsc" / "baselines" / ".installed"
OF_EACH_MODEL = ("d512", "encoder", "cnn")
"""At a small size the other shapes of a GPT are these."""
OTHERS = {
    "wafer": ((), 50),
    "csl": (("--small",), 12),
    "queue_simulator": (("--jobs", "300", "--queued", "300", "--processes", "1"), 3),
    "queue_throughput": (("--jobs", "20", "--queued", "5000", "--no-slurm"), 3),
}
"""Arguments and number of lines of what is no part of `engine_bars`."""
ELSEWHERE = {
    "engine": "the first test here",
    "engine_bars": "its parts are run here one by one",
    "installation": "installs everything: minutes of downloads and of pip",
}
PARTS = {part.name: part for part in engine_bars.parts() if part.module != "benchmarks.engine"}
PARTS |= {part.name: part for part in engine_bars.parts() if part.name == "overhead"}


def groups(shape: str) -> list[str]:
    """Return the groups of a shape; DeepSpeed is compiled for minutes, once, by the benchmark."""
    there = [name for name in GROUPS if name not in NEEDS_CUDA]
    if not BASELINES.exists():
        there.remove("offload")
    return groups_of(SMALL_SHAPES[shape], there)


def lines_of(text: str) -> list[str]:
    found = [line for line in text.splitlines() if line.endswith(("ok", "MISSED"))]
    assert [line for line in found if "not-measured" in line or " nan " in line] == [], text[-4000:]
    return found


def output_of(*command: str) -> str:
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    is_over = done.returncode == 0 or done.stdout.rstrip().endswith(("ok", "MISSED"))
    assert is_over, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


@pytest.mark.parametrize("shape", OF_EACH_MODEL)
def test_every_party_trains_the_same_and_is_compared_with_those_it_is_held_to(shape: str) -> None:
    assert client_venv()  # whose CPU backend is a party, and which traces the models
    text = output_of(
        *("-m", "benchmarks.engine", "--small", "--shape", shape, "--group", *groups(shape))
    )
    said = {line.split()[0] for line in lines_of(text)}
    wanted = {
        f"{shape}.{ours}/{other}"
        for group in groups(shape)
        for ours, other, _ in demands(SHAPES[shape], group)
    }
    assert said == wanted
    assert text.count("party ") == len(groups(shape))


@pytest.mark.parametrize("name", PARTS)
def test_every_part_of_the_engines_bars_measures_what_it_promises(name: str) -> None:
    part = PARTS[name]
    found = lines_of("\n".join(engine_bars.run(part, is_small=True)))
    assert len(found) >= part.num_bars


@pytest.mark.parametrize("name", OTHERS)
def test_every_other_benchmark_measures_what_it_promises(name: str) -> None:
    arguments, num_lines = OTHERS[name]
    assert len(lines_of(output_of("-m", f"benchmarks.{name}", *arguments))) >= num_lines


def test_every_benchmark_is_run_here_or_says_why_not() -> None:
    modules = {path.stem for path in (ROOT / "benchmarks").glob("*.py")} - {"__init__"}
    parts = {part.module.removeprefix("benchmarks.") for part in PARTS.values()}
    assert parts | OTHERS.keys() | ELSEWHERE.keys() == modules
