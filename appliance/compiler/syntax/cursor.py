"""A position in the program text, and errors that say where it stood.

The grammar is matched by regular expressions at the cursor's position, without a list of tokens in
between: a program of 3 MB then takes about a second, most of it in the expressions themselves.
"""

import re

from appliance.core.errors import ProgramError

_BLANK = re.compile(r"(?:[ \t\r\n]+|//[^\n]*)*")
_STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
_ESCAPE = re.compile(r"\\(?:([0-9a-fA-F]{2})|(.))")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_$.]*")
_INTEGER = re.compile(r"-?[0-9]+")
_NAMED_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\"}


class Cursor:
    """A text and a position in it, which only moves forward.

    Args:
        text: The whole program text.
    """

    __slots__ = ("position", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.skip_blank()

    def skip_blank(self) -> None:
        """Move over blanks and comments."""
        found = _BLANK.match(self.text, self.position)
        if found is not None:
            self.position = found.end()

    def at_end(self) -> bool:
        """Whether the whole text has been read."""
        return self.position >= len(self.text)

    def peek(self, literal: str) -> bool:
        """Whether the text goes on with `literal`."""
        return self.text.startswith(literal, self.position)

    def accept(self, literal: str) -> bool:
        """Move over `literal` if the text goes on with it."""
        if not self.text.startswith(literal, self.position):
            return False
        self.position += len(literal)
        if self.text[self.position : self.position + 1] in _BLANK_STARTS:
            self.skip_blank()
        return True

    def expect(self, literal: str) -> None:
        """Move over `literal`.

        Raises:
            ProgramError: The text goes on otherwise.
        """
        if not self.accept(literal):
            raise self.error(f"'{literal}'")

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Move over a match of `pattern`, if there is one here."""
        found = pattern.match(self.text, self.position)
        if found is not None:
            self.position = found.end()
            if self.text[self.position : self.position + 1] in _BLANK_STARTS:
                self.skip_blank()
        return found

    def require(self, pattern: re.Pattern[str], expected: str) -> re.Match[str]:
        """Move over a match of `pattern`.

        Raises:
            ProgramError: There is none here; it names `expected`.
        """
        found = self.match(pattern)
        if found is None:
            raise self.error(expected)
        return found

    def identifier(self, expected: str = "a name") -> str:
        """Read a bare identifier, dots included."""
        return self.require(_IDENTIFIER, expected).group()

    def integer(self, expected: str = "an integer") -> int:
        """Read a decimal integer."""
        return int(self.require(_INTEGER, expected).group())

    def string(self, expected: str = "a string") -> str:
        """Read a quoted string and resolve its escapes."""
        raw = self.require(_STRING, expected).group(1)
        return _ESCAPE.sub(_unescape, raw) if "\\" in raw else raw

    def error(self, expected: str, *, position: int | None = None) -> ProgramError:
        """Build the error for text that does not follow the grammar.

        Args:
            expected: What should have stood here.
            position: Where; by default at the cursor.
        """
        found = self.text[self.position if position is None else position :][:30].split("\n")[0]
        seen = repr(found) if found else "the end of the text" if self.at_end() else "a line's end"
        return self.problem(f"expected {expected}, found {seen}", position=position)

    def problem(self, message: str, *, position: int | None = None) -> ProgramError:
        """Build an error that says where in the text it is."""
        where = self.position if position is None else position
        line = self.text.count("\n", 0, where) + 1
        column = where - (self.text.rfind("\n", 0, where) + 1) + 1
        return ProgramError(
            f"The program text, line {line}, column {column}: {message}.",
            hint="Send the text exactly as the client's compiler front end prints it.",
        )


_BLANK_STARTS = frozenset({" ", "\t", "\r", "\n", "/"})


def _unescape(found: re.Match[str]) -> str:
    code, letter = found.groups()
    if code is not None:
        return chr(int(code, 16))
    return _NAMED_ESCAPES.get(letter, letter)
