"""Every party of the engine's tables trains the same, and is compared with those it is held to.

A party that does not run, or that trains something else than the first, is a line that could not be
measured.
"""

from pathlib import Path

import pytest

from benchmarks.engine import GROUPS, NEEDS_CUDA, SMALL_SHAPES, groups_of
from benchmarks.engine_bars import Part
from benchmarks.engine_parties import checkouts
from benchmarks.engine_parties.interpreters import start_benchmark
from tests.benchmarks.promises import broken_promises
from tests.support import forked
from tests.support.client import client_venv

pytestmark = [pytest.mark.client, pytest.mark.slow]

BASELINES = Path.home() / ".cache" / "wsc" / "baselines" / ".installed"
OF_EACH_MODEL = ("d512", "encoder", "cnn")
"""At a small size the other shapes of a GPT are these."""
MEASURED_HERE = [name for name in GROUPS if name not in NEEDS_CUDA]
TABLES = [
    (shape, group)
    for shape in OF_EACH_MODEL
    for group in groups_of(SMALL_SHAPES[shape], MEASURED_HERE)
]


def part_of(shape: str, group: str) -> Part:
    arguments = ("--shape", shape, "--group", group)
    name = f"{shape}.{group}"
    return Part(
        name=name, module="benchmarks.engine", arguments=arguments, small=("--small",), num_bars=0
    )


@pytest.mark.parametrize(("shape", "group"), TABLES, ids=lambda name: name)
def test_every_party_trains_the_same_and_is_compared_with_those_it_is_held_to(
    shape: str, group: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if group == "offload" and not BASELINES.exists():
        pytest.skip("DeepSpeed is compiled for minutes, once, by the benchmark")
    assert client_venv()  # whose CPU backend is a party, and which traces the models
    assert broken_promises(part_of(shape, group), capsys) == []


def test_parties_start_with_interpreters_of_their_own_as_a_user_starts_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(forked.VARIABLE)
    assert broken_promises(part_of("cnn", "compilers"), capsys, start=start_benchmark) == []


def test_another_checkout_is_compared_by_parties_of_ours_alone() -> None:
    with pytest.raises(SystemExit, match="ours has our parties ours-2x1-ring, ours-2x1-mapped"):
        checkouts.main([str(checkouts.THIS), "--party", "plain-2"])
