"""Text that somebody else wrote, for a terminal or a line of a log: it is seen, and does nothing.

A terminal obeys control characters: they move the cursor, hide and overwrite text, set titles and
the clipboard. A line break within a record looks like the next record, and characters that turn the
direction of writing make a text look like another one.
"""

import unicodedata

_DOES_SOMETHING = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Categories of Unicode: controls, formats (bidirectional ones, too), halves of characters, and
separators of lines and paragraphs."""
_JOINERS = frozenset("\u200c\u200d")
"""Formats that words of some languages, and pictures, are written with."""


class _Escapes(dict[int, str]):
    """What is written for each character, filled as they come."""

    def __init__(self, keeps: str) -> None:
        super().__init__({ord(char): char for char in keeps})

    def __missing__(self, code: int) -> str:
        char = chr(code)
        if unicodedata.category(char) in _DOES_SOMETHING and char not in _JOINERS:
            char = char.encode("unicode_escape").decode()
        self[code] = char
        return char


_of_a_field, _of_lines = _Escapes(""), _Escapes("\n\t")


def visible(text: str) -> str:
    """Return a text as one line, whose control characters are written as Python writes them."""
    return text if text.isprintable() else text.translate(_of_a_field)


def visible_lines(text: str) -> str:
    """Return a text of several lines; line breaks and tabs stay."""
    return text if text.isprintable() else text.translate(_of_lines)


def indented(text: str) -> str:
    """Return the lines that belong to the one before them, such as a traceback, set in."""
    return "\n".join(f"  {visible_lines(line)}" for line in text.split("\n"))
