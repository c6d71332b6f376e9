"""Debug locations as text: scopes, call stacks, references to locations defined elsewhere.

`"blocks.1.fc2.fwd/aten::addmm"(callsite("forward"("model.py":8:0) at ...))` names the module, the
direction, the framework's operation and the Python call stack, innermost frame first.
"""

import re
from dataclasses import dataclass

from appliance.compiler.syntax.cursor import Cursor
from appliance.core.ir.graph import UNKNOWN_LOCATION, Direction, Frame, Location

_ALIAS = re.compile(r"#[A-Za-z0-9_$.]+")
_PLACE = re.compile(r":([0-9]+):([0-9]+)")
_FRAME = re.compile(r'"([^"\\\n]*)"\("([^"\\\n]*)":([0-9]+):[0-9]+\)')
_SKIPPED = re.compile(r"<[^>\n]*>")

Reference = Location | str
"""A location, or the name of one that may be defined further down."""


@dataclass(slots=True)
class _Place:
    """What one piece of location text says: a name, a call stack, or both."""

    name: str = ""
    frames: tuple[Frame, ...] = ()


class LocationTable:
    """The locations that a program text defines by name, and the call frames they share."""

    def __init__(self) -> None:
        self._defined: dict[str, Location] = {}
        self._frames: dict[tuple[str, str, str], Frame] = {}

    def define(self, name: str, location: Reference) -> None:
        """Record `#name = loc(...)`."""
        self._defined[name] = self.resolve(location)

    def resolve(self, reference: Reference) -> Location:
        """Return the location that a reference means; unknown if nothing defines it."""
        if isinstance(reference, Location):
            return reference
        return self._defined.get(reference, UNKNOWN_LOCATION)

    def parse(self, cursor: Cursor) -> Reference:
        """Read `loc(...)`.

        Raises:
            ProgramError: The text does not follow the grammar of locations.
        """
        cursor.expect("loc")
        cursor.expect("(")
        found = cursor.match(_ALIAS)
        if found is not None:
            cursor.expect(")")
            return found.group()
        place = self._parse_place(cursor)
        cursor.expect(")")
        return _to_location(place)

    def parse_optional(self, cursor: Cursor) -> Reference:
        """Read `loc(...)` if the text goes on with it."""
        return self.parse(cursor) if cursor.peek("loc(") else UNKNOWN_LOCATION

    def _parse_place(self, cursor: Cursor) -> _Place:
        found = cursor.match(_FRAME)
        if found is not None:
            return _Place(frames=(self._frame(*found.groups()),))
        if cursor.peek("callsite"):
            return self._parse_callsite(cursor)
        if cursor.accept("fused"):
            return self._parse_fused(cursor)
        if cursor.accept("unknown"):
            return _Place()
        found = cursor.match(_ALIAS)
        if found is not None:
            location = self.resolve(found.group())
            return _Place(frames=location.frames)
        return self._parse_named(cursor)

    def _parse_callsite(self, cursor: Cursor) -> _Place:
        """Read nested call sites in a loop: a call stack can be deeper than Python's."""
        frames: list[Frame] = []
        name, depth = "", 0
        while cursor.accept("callsite"):
            cursor.expect("(")
            callee = self._parse_place(cursor)
            cursor.expect("at")
            frames += callee.frames
            name = name or callee.name
            depth += 1
        outermost = self._parse_place(cursor)
        for _ in range(depth):
            cursor.expect(")")
        return _Place(name or outermost.name, (*frames, *outermost.frames))

    def _parse_fused(self, cursor: Cursor) -> _Place:
        cursor.match(_SKIPPED)
        cursor.expect("[")
        parts: list[_Place] = []
        while not cursor.accept("]"):
            parts.append(self._parse_place(cursor))
            if not cursor.accept(","):
                cursor.expect("]")
                break
        named = [part for part in parts if "/" in part.name] or [p for p in parts if p.name]
        stacks = [part.frames for part in [*named, *parts] if part.frames]
        return _Place(named[0].name if named else "", stacks[0] if stacks else ())

    def _parse_named(self, cursor: Cursor) -> _Place:
        name = cursor.string("a location")
        found = cursor.match(_PLACE)
        if found is not None:
            return _Place(frames=(self._frame("", name, found.group(1)),))
        if not cursor.accept("("):
            return _Place(name)
        child = self._parse_place(cursor)
        cursor.expect(")")
        return _Place(name, child.frames)

    def _frame(self, function: str, file: str, line: str) -> Frame:
        key = (function, file, line)
        frame = self._frames.get(key)
        if frame is None:
            frame = self._frames[key] = Frame(function=function, file=file, line=int(line))
        return frame


def _to_location(place: _Place) -> Location:
    scope, slash, operation = place.name.rpartition("/")
    if not slash and "::" not in operation:
        scope, operation = operation, ""
    module, dot, suffix = scope.rpartition(".")
    if dot and suffix in ("fwd", "bwd"):
        direction = Direction(suffix)
    else:
        module, direction = scope, None
    if not (module or operation or place.frames):
        return UNKNOWN_LOCATION
    return Location(module=module, direction=direction, operation=operation, frames=place.frames)
