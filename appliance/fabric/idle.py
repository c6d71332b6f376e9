"""What the code of a PE can never do: tasks that nothing activates, and no word to memcpy.

For reports of PEs that have come to rest though the host waits for them.
"""

from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass

from appliance.csl.program import (
    CodeClass,
    Constant,
    FabricOutDescriptor,
    Intrinsic,
    Position,
    Program,
    TaskKind,
)
from appliance.csl.program.operations import DsdMake, SetBlocked, Target, TargetKind


def idle_code(source: CodeClass) -> Iterator[tuple[str, Position | None]]:
    """Yield what never happens on a PE with this code, and where it is written."""
    parts = list(_parts(source))
    activated = _activated(source, parts)
    for task in source.tasks:
        if activated is not None and task.kind is TaskKind.LOCAL and task.id not in activated:
            name = source.functions[task.function].name
            yield f"nothing activates local task {task.id} ({name})", task.position
    calls = (part for part in parts if isinstance(part, Intrinsic))
    if not any(call.name == "unblock_command_stream" for call in calls):
        yield f"nothing in {source.file} calls unblock_cmd_stream", None


def silent_files(program: Program, places: Iterable[tuple[int, int]], color: int) -> str:
    """Return the code of PEs if none of it can send a color; empty if some can."""
    files: set[str] = set()
    for x, y in places:
        index = program.grid.code_class(x, y)
        if index >= len(program.classes):
            return ""
        sent = _sent_colors(program, program.classes[index])
        if sent is None or color in sent:
            return ""
        files.add(program.classes[index].file)
    return " and ".join(sorted(files))


def _sent_colors(program: Program, source: CodeClass) -> frozenset[int] | None:
    """Return the colors that a PE with this code may send; None if a run alone decides it."""
    found: set[int] = set()
    queues = {each.queue: each.color for each in source.queues if each.output}
    for part in _parts(source):
        if isinstance(part, Intrinsic) and part.name == "queue_bind_output":
            return None
        if isinstance(part, DsdMake) and part.color is not None:
            return None
        if isinstance(part, FabricOutDescriptor):
            color = part.color if program.architecture == "wse2" else None
            if color is None and part.queue is not None:
                color = queues.get(part.queue)
            if color is None:
                return None
            found.add(color)
    return frozenset(found)


def _activated(source: CodeClass, parts: list[object]) -> frozenset[int] | None:
    """Local tasks that something activates or unblocks; None if that is known in a run only."""
    targets = [*source.active, *(part for part in parts if isinstance(part, Target))]
    found = set()
    for target in targets:
        if target.kind is not TargetKind.LOCAL_TASK:
            continue
        if not isinstance(target.id, Constant):
            return None
        found.add(int(target.id.value))
    return frozenset(found)


def _parts(value: object) -> Iterator[object]:
    """Yield the dataclasses in a value, but for what `@block` and `@unblock` name."""
    if isinstance(value, tuple):
        for item in value:
            yield from _parts(item)
    elif is_dataclass(value) and not isinstance(value, SetBlocked):
        yield value
        for each in fields(value):
            yield from _parts(getattr(value, each.name))
