"""`cs_trace`: a trace as text, SVG and Chrome's format."""

import itertools
import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from appliance.csl.compiler import compile_program
from appliance.csl.options import CompileOptions
from appliance.fabric.commands import CopyOut, Launch, Region
from appliance.fabric.host_interface import Simulator
from appliance.fabric.options import SimulatorOptions
from appliance.fabric.tracing.line_profile import profile
from appliance.fabric.tracing.trace import Trace, file_of
from appliance.fabric.tracing.view import Measure, bars, measured, moment
from appliance.sdk.cs_trace import main
from appliance.sdk.cslc import FileSources
from tests.support.sdk_jobs import EXAMPLES

Printed = pytest.CaptureFixture[str]
SVG = "{http://www.w3.org/2000/svg}"
WIDTH, HEIGHT, N = 4, 3, 8


@pytest.fixture(scope="module")
def trace() -> Trace:
    """The sum over 4 x 3 PEs."""
    sources = FileSources()
    options = CompileOptions(
        fabric_dims=(WIDTH + 7, HEIGHT + 2),
        fabric_offsets=(4, 1),
        parameters=(("width", WIDTH), ("height", HEIGHT), ("n", N)),
        memcpy=True,
        channels=1,
    )
    result = compile_program(str(EXAMPLES / "csl_sum" / "layout.csl"), options, sources)
    assert result.program is not None, result.render()
    simulator = Simulator(result.program, options=SimulatorOptions(trace_events=100_000))
    simulator.submit(Launch("sum"))
    simulator.wait(simulator.submit(CopyOut("vector", Region(0, 0, 1, 1), N)))
    found = simulator.trace(
        sources={name: text.split("\n") for name, text in sources.texts.items()}
    )
    assert found is not None
    return found


@pytest.fixture
def path(trace: Trace, tmp_path: Path) -> Path:
    target = tmp_path / "run.trace"
    target.write_bytes(b"".join(file_of(trace)))
    return target


def drawn(path: Path, *arguments: str) -> ElementTree.Element:
    target = path.with_suffix(".svg")
    assert main(["svg", str(path), "-o", str(target), *arguments]) == 0
    return ElementTree.parse(target).getroot()


def texts(picture: ElementTree.Element, tag: str = "text") -> list[str]:
    return [each.text or "" for each in picture.iter(f"{SVG}{tag}")]


def test_info_tells_of_the_run(
    path: Path, trace: Trace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["info", str(path)]) == 0
    text = capsys.readouterr().out
    assert "4 x 3 PEs, wse2" in text
    assert f"{len(trace.events):,}, and 0 earlier" in text
    assert "end      stopped" in text


def test_the_picture_shows_each_wavelet_that_moves_in_the_cycle(path: Path, trace: Trace) -> None:
    picture = drawn(path)
    cycle = int(texts(picture)[0].rpartition(" ")[2].replace(",", ""))
    moving = moment(trace, cycle).moving
    ways = sum(
        max(int(ports & 31).bit_count(), 1) for ports in moving["ports"][moving["kind"] == 1]
    )
    ways += int((moving["kind"] == 2).sum())
    assert len(moving) > 0
    assert len([each for each in texts(picture, "title") if "data" in each]) == ways


def test_one_color_and_one_pe_can_be_asked_for(path: Path) -> None:
    alone = drawn(path, "--color", "3", "--pe", "0,1", "--span", "0", "--heat", "work")
    assert not [each for each in texts(alone, "title") if "color 0," in each]
    assert any("row_done" in each and "pe.csl:" in each for each in texts(alone, "title"))
    assert any(each.startswith("heat: work, all cycles") for each in texts(alone))


def test_perfetto_gets_tasks_with_their_source(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["perfetto", str(path)]) == 0
    events = json.loads(capsys.readouterr().out)["traceEvents"]
    spans = [each for each in events if each["ph"] == "X"]
    assert {each["pid"] for each in spans} == set(range(1, WIDTH * HEIGHT + 1))
    adds = [each for each in spans if each["name"].startswith("@fadds(to_west")]
    assert all(each["args"]["source"].endswith("pe.csl:44") for each in adds)
    assert len(adds) == (WIDTH - 2) * HEIGHT
    hops = [each["args"]["hops"] for each in events if each["ph"] == "C"]
    assert sum(hops) > 0


def test_measures_count_what_they_say(trace: Trace) -> None:
    everything = {what: measured(trace, what, 0, 1 << 40) for what in Measure}
    hops = trace.events["kind"] == 1
    assert everything[Measure.TRAFFIC].sum() == hops.sum()
    assert everything[Measure.NONE].sum() == 0
    assert everything[Measure.OCCUPANCY].max() >= 1
    assert (everything[Measure.WORK] >= N).all()
    waited = trace.events["b"][np.isin(trace.events["kind"], (1, 2, 3, 5))]
    assert everything[Measure.WAITING].sum() == waited.sum()


def test_bars_end_where_the_next_task_begins_or_before(trace: Trace) -> None:
    for pe in range(WIDTH * HEIGHT):
        tasks = [bar for bar in bars(trace, pe) if bar.track == 0]
        assert len(tasks) >= 2
        assert all(one.end <= other.start for one, other in itertools.pairwise(tasks))


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("info", "nothing.trace"), 2, "nothing.trace cannot be read"),
        (("svg", "RUN", "--pe", "9,9"), 2, "There is no PE (9, 9): the grid has 4 x 3"),
        (("svg", "RUN", "--pe", "here"), 2, "it is two numbers"),
        (("svg", "RUN", "--span", "-1"), 2, "cannot be below 0"),
        (("svg", "RUN", "--heat", "temperature"), 2, "invalid choice"),
        (("svg", "RUN", "--cycle", "-1"), 2, "nothing of cycle -1: it goes from "),
        (("svg", "RUN", "--cycle", "310000"), 2, "nothing of cycle 310,000: it goes from "),
        (("svg", "RUN", "--color", "24"), 2, "There is no color 24; colors are 0 to 23"),
        (("svg", "RUN", "--color", "-1"), 2, "There is no color -1"),
        (("draw",), 2, "invalid choice"),
        (("info", __file__), 2, "does not begin as one"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(
    path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    code: int,
    message: str,
) -> None:
    wanted = [str(path) if each == "RUN" else each for each in arguments]
    assert main(wanted) == code
    found = capsys.readouterr().err
    assert found.startswith("cs_trace: error: ")
    assert message in found


def test_a_log_has_a_line_for_each_event_in_order(
    path: Path, trace: Trace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["log", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(trace.events)
    cycles = [int(line.split()[0].removeprefix("@")) for line in lines]
    assert cycles == sorted(cycles)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "begins call of sum (/"),
        ((), " starts an operation of 8 elements ("),
        ((), "takes wavelet of color 1 = 0x"),
        ((), "routes wavelet of color 1 = 0x"),
        ((), "sends wavelet of color 1 = 0x"),
        ((), "to west"),
        ((), "has nothing to run"),
        (("--pe", "1,0"), "PE (1, 0)"),
        (("--color", "1"), "color 1"),
    ],
)
def test_a_log_says_what_happened_where(
    path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
) -> None:
    assert main(["log", str(path), *arguments]) == 0
    lines = capsys.readouterr().out.splitlines()
    matching = [words in line for line in lines]
    assert all(matching) if arguments else any(matching), lines[:40]


def test_a_profile_counts_each_cycle_of_a_task_once(trace: Trace) -> None:
    costs = profile(trace)
    pes = range(WIDTH * HEIGHT)
    tasks = [bar for pe in pes for bar in bars(trace, pe) if bar.track == 0]
    inner = [bar for pe in pes for bar in bars(trace, pe) if bar.track == 1]
    scalar = sum(cost.scalar for cost in costs.values())
    assert scalar == sum(b.end - b.start for b in tasks) - sum(b.end - b.start for b in inner)
    assert sum(cost.vector for cost in costs.values()) == sum(
        bar.end - bar.start for bar in inner if bar.is_vector
    )
    cycles = [cost.cycles for cost in costs.values()]
    assert cycles == sorted(cycles, reverse=True)


def test_a_profile_shows_the_hottest_lines_with_their_text(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["profile", str(path), "--lines", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["cycles", "scalar", "memory", "fabric", "runs", "line"]
    assert "pe.csl:" in lines[1]
    assert len(lines) == 4
    assert lines[3].startswith("and ")
    assert main(["profile", str(path), "--lines", "0"]) == 2
