"""Source files, and spans of text in them."""

from bisect import bisect_right
from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Source:
    """A file's text; offsets count characters from 0, lines and columns from 1."""

    path: str
    text: str
    number: int
    """Position of the file in the compilation, as `program.Position.file` counts."""
    _line_starts: list[int] | None = None

    def line_column(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset."""
        starts = self._starts()
        line = bisect_right(starts, offset)
        return line, offset - starts[line - 1] + 1

    def line_text(self, line: int) -> str:
        """The text of a line, without its end."""
        starts = self._starts()
        end = starts[line] if line < len(starts) else len(self.text) + 1
        return self.text[starts[line - 1] : end - 1].rstrip("\r")

    def _starts(self) -> list[int]:
        if self._line_starts is None:
            starts = [0]
            at = self.text.find("\n")
            while at >= 0:
                starts.append(at + 1)
                at = self.text.find("\n", at + 1)
            self._line_starts = starts
        return self._line_starts


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a source."""

    source: Source
    start: int
    end: int
