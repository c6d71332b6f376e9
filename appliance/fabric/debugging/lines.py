"""Source lines and instructions of a loaded program, both ways."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from appliance.core.errors import UserError
from appliance.csl.program import Program
from appliance.fabric.bytecode import BREAK, Op
from appliance.fabric.lowering.classes import LoweredClass


@dataclass(frozen=True, slots=True)
class CodePlace:
    """Where an instruction stands: file, line, function, and the function that has a copy of it."""

    file: str
    line: int
    function: str
    within: str

    def __str__(self) -> str:
        copied = "" if self.within == self.function else f", inlined in {self.within}"
        return f"{self.function} ({self.file}:{self.line}{copied})"


@dataclass(frozen=True, slots=True)
class CodeLines:
    """The lines of a program.

    Attributes:
        classes: Its code classes as lowered.
    """

    program: Program
    classes: Sequence[LoweredClass]

    def function_of(self, code: int, counter: int) -> int:
        """Return the number of the function that an instruction belongs to."""
        return bisect_right(self.classes[code].starts, counter) - 1

    def place(self, code: int, counter: int) -> CodePlace | None:
        """Return where an instruction stands, or the next that stands somewhere."""
        function = self.function_of(code, counter)
        functions = self.program.classes[code].functions
        if not 0 <= function < len(functions):
            return None
        for position in self.classes[code].positions[counter : counter + 16]:
            if position is not None:
                file, line, _ = position
                within = functions[function].name
                own = self._function_at(code, file, line) or within
                return CodePlace(self.program.files[file], line, own, within)
        return None

    def _function_at(self, code: int, file: int, line: int) -> str:
        """Return the function that a source line is in; empty before the first one."""
        heads = [
            (function.position.line, function.name)
            for function in self.program.classes[code].functions
            if function.position.file == file and function.position.line <= line
        ]
        return max(heads, default=(0, ""))[1]

    def beginnings(self, code: int) -> list[int]:
        """Return the instructions with which a line begins, or begins again."""
        return list(self._beginnings(code))

    def _beginnings(self, code: int) -> Iterator[int]:
        starts = set(self.classes[code].starts)
        before: tuple[int, int] | None = None
        for counter, position in enumerate(self.classes[code].positions):
            if counter in starts:
                before = None
            if position is None or self._is_end(code, counter):
                continue
            if position[:2] != before:
                before = position[:2]
                yield counter

    def _is_end(self, code: int, counter: int) -> bool:
        """Whether an instruction only leaves a function, which stands at the function's head."""
        operation = int(self.classes[code].code["op"][counter]) & (BREAK - 1)
        return operation == Op.RETURN

    def find(self, text: str) -> dict[int, tuple[int, ...]]:
        """Return by code class the instructions that `FILE:LINE` or a function's name means.

        A line without code means the next one that has some; a file may be named by its end.

        Raises:
            UserError: There is none.
        """
        file, colon, line = text.rpartition(":")
        if colon and line.isdecimal():
            found = self._of_line(file, int(line))
        else:
            found = self._of_function(text)
        if not found:
            raise UserError(
                f"There is no code at {text!r}.",
                hint="Write FILE:LINE, or a function's name; code that nothing calls is not there.",
            )
        return found

    def _of_line(self, file: str, line: int) -> dict[int, tuple[int, ...]]:
        numbers = {at for at, name in enumerate(self.program.files) if _names(file, name)}
        heads = [each for each in self._heads() if each[0] in numbers and each[1] == line]
        if heads:
            return self._of_heads(heads)
        found: dict[int, dict[int, list[int]]] = {}
        for code, counter, number, its_line in self._all_beginnings():
            if number in numbers and its_line >= line:
                found.setdefault(its_line, {}).setdefault(code, []).append(counter)
        nearest = found[min(found)] if found else {}
        return {code: tuple(counters) for code, counters in nearest.items()}

    def _of_function(self, name: str) -> dict[int, tuple[int, ...]]:
        names = {each: (each, each.rpartition(".")[2]) for each in set(self._heads().values())}
        heads = [head for head, each in self._heads().items() if name in names[each]]
        return self._of_heads(heads)

    def _of_heads(self, heads: list[tuple[int, int]]) -> dict[int, tuple[int, ...]]:
        """Return where functions begin that stand there, also where they are part of others."""
        found: dict[int, set[int]] = {}
        for code, source in enumerate(self.program.classes):
            for function, start in zip(source.functions, self.classes[code].starts, strict=True):
                if (function.position.file, function.position.line) in heads:
                    found.setdefault(code, set()).add(start)
        firsts = {head: self._first_line(head) for head in heads}
        for code, counter, file, line in self._all_beginnings():
            position = (
                self.program.classes[code].functions[self.function_of(code, counter)].position
            )
            for head, first in firsts.items():
                is_copy = (position.file, position.line) != head
                if is_copy and (file, line) == (head[0], first):
                    found.setdefault(code, set()).add(counter)
        return {code: tuple(sorted(counters)) for code, counters in found.items()}

    def _first_line(self, head: tuple[int, int]) -> int:
        """Return the first line with code of a function whose head is there, 0 without one."""
        others = (line for file, line in self._heads() if file == head[0] and line > head[1])
        last = min(others, default=1 << 32)
        lines = (line for *_, file, line in self._all_beginnings() if file == head[0])
        return min((line for line in lines if head[1] <= line < last), default=0)

    def _heads(self) -> dict[tuple[int, int], str]:
        """Return the functions by file and line of their heads."""
        return {
            (function.position.file, function.position.line): function.name
            for source in self.program.classes
            for function in source.functions
        }

    def _all_beginnings(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield code class, instruction, file and line of each beginning of a line."""
        for code, lowered in enumerate(self.classes):
            for counter in self.beginnings(code):
                position = lowered.positions[counter]
                if position is not None:
                    yield code, counter, position[0], position[1]


def _names(wanted: str, file: str) -> bool:
    parts, ending = PurePath(file).parts, PurePath(wanted).parts
    return bool(ending) and parts[-len(ending) :] == ending
