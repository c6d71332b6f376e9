"""Traces: complete, without effect on the run, bounded, and the same after a file."""

import base64
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from appliance.csl.program import (
    ColorConfiguration,
    DsdOperation,
    Grid,
    OperationSettings,
    Program,
    TaskKind,
)
from appliance.fabric.bytecode import TraceKind
from appliance.fabric.commands import CopyOut, Launch, Region, StreamIn, StreamOut
from appliance.fabric.errors import StallError
from appliance.fabric.host_interface import Simulator
from appliance.fabric.options import SimulatorOptions
from appliance.fabric.tracing.memory import symbols_of
from appliance.fabric.tracing.trace import Trace, file_of, read_trace
from appliance.wire.fabric_traces import MAX_BLOCK_EVENTS, TraceFile, TraceFormatError
from tests.support.fabric_programs import AT, ClassBuilder, local_task, program, straight
from tests.unit.fabric.test_fabric import (
    EAST,
    RAMP,
    VECTOR,
    WEST,
    fabric_in,
    fabric_out,
    memory,
    mover,
)

SIZE = 40
ROOM = 1 << 16


def row(*, taken: int = SIZE) -> Program:
    """A PE that sends to two others, of which each takes so many."""
    sender = mover("fmovs", fabric_out(3, 1, SIZE), memory(VECTOR, SIZE), size=SIZE)
    taker = mover("fmovs", memory(VECTOR, taken), fabric_in(2, taken), size=SIZE)
    routes = (
        (ColorConfiguration(1, RAMP, EAST),),
        (ColorConfiguration(1, WEST, EAST | RAMP),),
        (ColorConfiguration(1, WEST, RAMP),),
    )
    return program((sender, taker), width=3, code=(0, 1, 1), routes=routes)


def traced(text: Program, events: int = ROOM) -> tuple[Simulator, Trace]:
    """Run a program's `f` with a trace; without events no trace is made."""
    simulator = Simulator(text, options=SimulatorOptions(trace_events=events))
    simulator.wait(simulator.submit(Launch("f")))
    simulator.drain()
    trace = simulator.trace(sources={"pe.csl": ["  fn f() void {"]})
    assert trace is not None
    return simulator, trace


def of_kind(trace: Trace, kind: TraceKind) -> np.ndarray:
    return trace.events[trace.events["kind"] == kind]


def test_every_move_of_a_wavelet_is_in_the_trace() -> None:
    simulator, trace = traced(row())
    moves = np.isin(trace.events["kind"], (TraceKind.HOP, TraceKind.SEND))
    assert moves.sum() == simulator.counters().wavelets == 4 * SIZE
    assert len(of_kind(trace, TraceKind.TAKE)) == 2 * SIZE
    hops = of_kind(trace, TraceKind.HOP)
    assert set(hops["color"]) == {1}
    assert {(int(each["pe"]), int(each["ports"])) for each in hops} == {
        (0, EAST),
        (1, EAST | RAMP),
        (2, RAMP),
    }


def test_a_trace_changes_no_cycle() -> None:
    simulator = Simulator(row())
    simulator.wait(simulator.submit(Launch("f")))
    simulator.drain()
    assert simulator.trace(sources={}) is None
    assert simulator.counters() == traced(row())[0].counters()


def test_tasks_and_operations_begin_and_end_and_name_their_line() -> None:
    _, trace = traced(row())
    assert len(of_kind(trace, TraceKind.TASK)) == len(of_kind(trace, TraceKind.TASK_END)) == 6
    starts, ends = of_kind(trace, TraceKind.START), of_kind(trace, TraceKind.FINISH)
    assert sorted(zip(starts["pe"], starts["a"], starts["b"], strict=True)) == sorted(
        zip(ends["pe"], ends["a"], ends["b"], strict=True)
    )
    lines = trace.header["classes"][0]["lines"]
    assert lines[str(starts["a"][0])] == ["f", 0, 1, 1, "fn f() void {"]


def test_waiting_is_counted_where_it_happens() -> None:
    _, trace = traced(row())
    assert of_kind(trace, TraceKind.HOP)["b"].max() == 0
    slow = mover("fmovs", memory(VECTOR, 1), fabric_in(2, 1), size=SIZE)
    text = row()
    blocked = Simulator(
        program(
            (text.classes[0], slow),
            width=3,
            code=(0, 1, 1),
            routes=tuple(entry.colors for entry in text.routings),
        ),
        options=SimulatorOptions(trace_events=ROOM),
    )
    blocked.submit(Launch("f"))
    with pytest.raises(StallError):
        blocked.wait(blocked.submit(CopyOut("v", Region(0, 0, 1, 1), 1)))
    stalled = blocked.trace(sources={})
    assert stalled is not None
    assert "Nothing has moved" in stalled.header["end"]
    assert any("microthread 3" in each["what"] for each in stalled.header["waiting"])


def test_what_variables_hold_at_the_end_is_stored_pe_by_pe() -> None:
    simulator, trace = traced(row())
    stored = zlib.decompress(base64.b64decode(trace.header["memory"]))
    at = 0
    for x, code in enumerate((0, 1, 1)):
        for symbol in trace.header["classes"][code]["symbols"]:
            found = stored[at : at + symbol["shown"]]
            assert found == simulator.read_memory(x, 0, symbol["address"], symbol["shown"])
            at += symbol["shown"]
    assert at == len(stored)
    vector = next(s for s in trace.header["classes"][0]["symbols"] if s["name"] == "v")
    assert (vector["type"], vector["shape"], vector["shown"]) == ("f32", [SIZE], 64)


def test_of_a_large_grid_fewer_bytes_of_a_symbol_are_stored() -> None:
    text = row()
    few, many = symbols_of(text)[1], symbols_of(replace(text, grid=wide(text, 40_000)))[1]
    assert [symbol["shown"] for symbol in few] == [64, 2]
    assert [symbol["shown"] for symbol in many] == [32, 2]
    none = symbols_of(replace(text, grid=wide(text, 600_000)))[1]
    assert {symbol["shown"] for symbol in none} == {0}


def wide(text: Program, width: int) -> Grid:
    """Return a row of PEs with the second class."""
    one = (1).to_bytes(4, "little")
    return replace(text.grid, width=width, height=1, code=one * width, routing=one * width)


def test_the_ring_keeps_the_latest_events() -> None:
    _, whole = traced(row())
    _, latest = traced(row(), events=50)
    assert len(latest.events) == 50
    assert latest.header["num_lost"] == len(whole.events) - 50
    assert (latest.events["cycle"] >= whole.events["cycle"][-60]).all()


def test_what_the_host_streams_is_in_the_trace() -> None:
    builder = ClassBuilder()
    settings = OperationSettings(asynchronous=True)
    passing = DsdOperation(None, "fmovs", (fabric_out(3, 0, 4), fabric_in(2, 4)), settings, AT)
    builder.task(TaskKind.LOCAL, 9, builder.function(straight("start", (), (passing,))))
    builder.queue(2, 1)
    builder.extra["active"] = (local_task(9),)
    options = SimulatorOptions(trace_events=ROOM)
    simulator = Simulator(program((builder.build(),)), options=options)
    here = Region(0, 0, 1, 1)
    simulator.submit(StreamIn(1, here, np.arange(4, dtype=np.uint32).reshape(1, 1, 4)))
    simulator.wait(simulator.submit(StreamOut(0, here, 4)))
    trace = simulator.trace(sources={})
    assert trace is not None
    assert list(of_kind(trace, TraceKind.HOST_IN)["a"]) == [0, 1, 2, 3]
    assert list(of_kind(trace, TraceKind.HOST_OUT)["a"]) == [0, 1, 2, 3]


def kept(trace: Trace, path: Path) -> Path:
    path.write_bytes(b"".join(file_of(trace)))
    return path


def test_a_file_gives_the_trace_back(tmp_path: Path) -> None:
    _, trace = traced(row())
    many = np.tile(trace.events, 300)
    many["cycle"] += np.repeat(np.arange(300, dtype=np.uint64) * 5_000_000_000, len(trace.events))
    for events in (trace.events, many, trace.events[:0]):
        path = kept(Trace(trace.header, events), tmp_path / "t")
        file = TraceFile(path)
        assert all(block.num_events <= MAX_BLOCK_EVENTS for block in file.blocks)
        found = read_trace(file)
        assert found.header == trace.header
        assert (found.events == events).all()


def test_a_file_that_was_cut_off_ends_with_its_last_whole_block(tmp_path: Path) -> None:
    _, trace = traced(row())
    events = np.tile(trace.events, 400)
    events.sort(order="cycle", kind="stable")
    path = kept(Trace(trace.header, events), tmp_path / "t")
    whole = TraceFile(path)
    assert len(whole.blocks) > 2
    path.write_bytes(path.read_bytes()[: whole.blocks[-1].offset + 10])
    assert TraceFile(path).blocks == whole.blocks[:-1]


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (lambda data: b"PK" + data[2:], "does not begin as one"),
        (lambda data: data[:8] + b"\x09" + data[9:], "version 9"),
        (lambda data: data[:12] + b"\xff\xff\xff\xff" + data[16:], "header has"),
        (lambda data: data[:20] + b"\0\0\0\0" + data[24:], "no trace of the fabric"),
        (lambda data: data[:15], "does not begin as one"),
    ],
)
def test_what_is_no_trace_is_refused(tmp_path: Path, broken, message: str) -> None:
    path = kept(traced(row())[1], tmp_path / "t")
    path.write_bytes(broken(path.read_bytes()))
    with pytest.raises(TraceFormatError, match=message):
        read_trace(TraceFile(path))


def test_a_header_that_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    bomb = zlib.compress(bytes(1 << 27))
    path = tmp_path / "t"
    path.write_bytes(b"CSLTRACE" + (1).to_bytes(4, "little") + len(bomb).to_bytes(4, "little"))
    with path.open("ab") as file:
        file.write(bomb)
    with pytest.raises(TraceFormatError, match="cut off or too large"):
        read_trace(TraceFile(path))


def test_events_of_pes_that_are_not_there_are_refused(tmp_path: Path) -> None:
    _, trace = traced(row())
    events = trace.events.copy()
    events["pe"][3] = 99
    path = kept(Trace(trace.header, events), tmp_path / "t")
    with pytest.raises(TraceFormatError, match="PEs that its grid does not have"):
        read_trace(TraceFile(path))
