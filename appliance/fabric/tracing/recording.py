"""From the kernel's ring and the program to a trace."""

import ctypes
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from appliance.csl.program import NOWHERE, CodeClass, ColorConfiguration, Program
from appliance.fabric.bytecode import TRACE_EVENT, TraceKind
from appliance.fabric.errors import Waiting
from appliance.fabric.loading import LoadedProgram
from appliance.fabric.lowering.classes import LoweredClass
from appliance.fabric.tracing.memory import Symbols, packed_memory, symbols_of
from appliance.fabric.tracing.trace import Trace, packed_grid

_MOST_WAITING = 500
_MOST_TEXT = 200
_WITH_LINE = (TraceKind.TASK, TraceKind.START, TraceKind.FINISH, TraceKind.VECTOR)


def ring_events(address: int, count: int, capacity: int) -> NDArray[np.void]:
    """Return the events that a ring still holds, cycles ascending.

    Args:
        address: Where it lies.
        count: Events that were ever recorded.
        capacity: Events that it holds.
    """
    kept = min(count, capacity)
    raw = ctypes.string_at(address, kept * TRACE_EVENT.itemsize)
    events = np.frombuffer(raw, dtype=TRACE_EVENT)
    if count > capacity:
        events = np.roll(events, -(count % capacity))
    # Tasks run ahead of the clock, so their ends are recorded before what others do meanwhile.
    found: NDArray[np.void] = events[np.argsort(events["cycle"], kind="stable")]
    return found


def make_trace(
    program: Program,
    loaded: LoadedProgram,
    events: NDArray[np.void],
    *,
    num_lost: int,
    end: str,
    waiting: Sequence[Waiting],
    memory: Callable[[int, int], bytes],
    sources: Mapping[str, Sequence[str]],
) -> Trace:
    """Return a trace with everything that a reader needs of the program.

    Args:
        program: What ran.
        loaded: As the kernel holds it.
        events: What the ring has kept.
        num_lost: Earlier events that it has not.
        end: How the run ended: empty if well, else what was wrong.
        waiting: What could not go on at the end.
        memory: What a PE holds, by its number and its class.
        sources: Lines of source files by name, as far as they are known.
    """
    lines = _used_lines(program, loaded, events, sources)
    symbols = symbols_of(program)
    header = {
        "architecture": program.architecture,
        "width": program.grid.width,
        "height": program.grid.height,
        "offsets": list(program.offsets),
        "num_events": len(events),
        "num_lost": num_lost,
        "end": end,
        "waiting": [
            {"x": each.x, "y": each.y, "what": each.what, "where": each.where, "since": each.since}
            for each in waiting[:_MOST_WAITING]
        ],
        "files": list(program.files),
        "classes": [
            _class(source, symbols[number], lines[number])
            for number, source in enumerate(program.classes)
        ],
        "memory": packed_memory(program, symbols, memory),
        "routes": [[_route(color) for color in entry.colors] for entry in program.routings],
        "code": packed_grid(program.grid.code),
        "routing": packed_grid(program.grid.routing),
    }
    return Trace(header, events)


# `Any`: parts of a JSON object.
def _class(source: CodeClass, symbols: Symbols, lines: Mapping[int, list[Any]]) -> dict[str, Any]:
    tasks = [
        {"kind": task.kind.value, "id": task.id, "name": source.functions[task.function].name}
        for task in source.tasks
    ]
    return {
        "file": source.file,
        "parameters": source.parameters,
        "memory_bytes": source.memory_end,
        "tasks": tasks,
        "symbols": symbols,
        "lines": {str(pc): line for pc, line in sorted(lines.items())},
    }


def _route(color: ColorConfiguration) -> dict[str, Any]:
    return {
        "color": color.color,
        "rx": color.rx,
        "tx": color.tx,
        "positions": [
            [each.rx & ~NOWHERE, each.tx & ~NOWHERE] for each in color.positions if each.valid
        ],
    }


def _used_lines(
    program: Program,
    loaded: LoadedProgram,
    events: NDArray[np.void],
    sources: Mapping[str, Sequence[str]],
) -> list[dict[int, list[Any]]]:
    """Return for each class the function and the source line of each instruction in the events."""
    found: list[dict[int, list[Any]]] = [{} for _ in program.classes]
    placed = events[np.isin(events["kind"], _WITH_LINE)]
    code = np.frombuffer(program.grid.code, dtype="<u4")[placed["pe"]]
    pairs = np.unique(code.astype(np.uint64) << np.uint64(32) | placed["a"])
    for pair in pairs.tolist():
        number, pc = pair >> 32, pair & 0xFFFFFFFF
        if number < len(found):
            names = program.classes[number].functions
            line = _line(program, loaded.classes[number], pc, sources)
            place = bisect_right(loaded.classes[number].starts, pc) - 1
            found[number][pc] = [names[place].name if 0 <= place < len(names) else "", *line]
    return found


def _line(
    program: Program, lowered: LoweredClass, pc: int, sources: Mapping[str, Sequence[str]]
) -> list[Any]:
    """Return file, line, column and text of an instruction, or of the next that has them."""
    for position in lowered.positions[pc : pc + 16]:
        if position is not None:
            file, line, column = position
            known = sources.get(program.files[file], ())
            text = known[line - 1] if 0 < line <= len(known) else ""
            return [file, line, column, text.strip()[:_MOST_TEXT]]
    return [-1, 0, 0, ""]
