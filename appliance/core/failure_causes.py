"""The cause of a failure in one line: what failed, at which line of the user's, in which pod. Pure.

A job's message is read in tables, subjects of mails and chats. A text with a traceback becomes the
exception and the user's own frame there; the whole text is kept beside it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

MAX_CHARACTERS = 300
"""Longest line."""

_TRACEBACK = "Traceback (most recent call last):"
_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+)')
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(?:: .*)?")
_END = re.compile(r"(?P<end>.* (?:ended with exit code|was ended by signal) \d+)\.")
"""The last line of a program's output, as pods add it."""
_OTHERS = re.compile(
    r"/(?:site|dist)-packages/|/lib/python3[^/]*/|^<|/torch/|"
    r"/(?:appliance|workers)/(?:user_code|pods|coordinator|input|driver)/"
)
"""Files that are not the user's: installed packages, the standard library, the appliance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Why something failed.

    Attributes:
        line: One line of at most `MAX_CHARACTERS`.
        detail: The whole text; empty if the line says it all.
    """

    line: str
    detail: str = ""


_NO_CAUSE = Cause(line="")


def cause_of(text: str) -> Cause:
    """Return the cause that a text names, which may end with a traceback."""
    if not text:
        return _NO_CAUSE
    whole = text.strip()
    line = shortened(_of_traceback(whole) or _of_program(whole) or _first_line(whole))
    return Cause(line=line, detail="" if line == whole else whole)


def last_words(output: str) -> str:
    """Return the last error in what a program has printed; its last line if there is none.

    Args:
        output: The end of what it printed.
    """
    _, found, rest = output.rpartition(_TRACEBACK)
    if words := _of_traceback(found + rest):
        return shortened(words)
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return shortened(lines[-1]) if lines else ""


def shortened(line: str) -> str:
    """Return a line of at most `MAX_CHARACTERS`; its middle gives way, as its ends say the most."""
    if len(line) <= MAX_CHARACTERS:
        return line
    tail = MAX_CHARACTERS // 3
    return f"{line[: MAX_CHARACTERS - tail - 5].rstrip()} ... {line[-tail:].lstrip()}"


def _of_traceback(text: str) -> str:
    """Return what the last traceback of a text says; empty if there is none, or it is cut off."""
    frames, exception = _read(text.rpartition(_TRACEBACK)[2].splitlines())
    if _TRACEBACK not in text or not exception:
        return ""
    frame = _user_frame(frames)
    said = f"{exception} (at {frame})" if frame else exception
    who = _first_line(text.partition(_TRACEBACK)[0]).rstrip(":")
    return f"{who}: {said}" if who else said


def _of_program(text: str) -> str:
    """Return how a program ended, and its last words; empty if a text does not end with that."""
    output, _, last = text.rpartition("\n")
    found = _END.fullmatch(last.strip())
    words = last_words(output)
    return f"{found['end']}: {words}" if found and words else ""


def _read(lines: Sequence[str]) -> tuple[list[tuple[str, str]], str]:
    """Return the frames of a traceback, outermost first, and its exception; empty if cut off."""
    frames = []
    for line in lines:
        if found := _FRAME.match(line):
            frames.append((found["file"], found["line"]))
        elif line and not line[0].isspace() and _EXCEPTION.fullmatch(line):
            return frames, line
    return frames, ""


def _user_frame(frames: Sequence[tuple[str, str]]) -> str:
    """Return `file:line` of the innermost frame that is the user's; empty if none is."""
    for file, line in reversed(frames):
        if not _OTHERS.search(file):
            return f"{file}:{line}"
    return ""


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")
