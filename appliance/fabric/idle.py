"""What the code of a PE can never do: tasks that nothing activates, and no word to memcpy.

For reports of PEs that have come to rest though the host waits for them.
"""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

from appliance.csl.program import CodeClass, Constant, Intrinsic, Position, TaskKind
from appliance.csl.program.operations import SetBlocked, Target, TargetKind


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
