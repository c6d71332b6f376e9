"""Pods' logs as text for people: lines that our programs wrote as JSON become readable lines.

Whatever else a pod prints, a user's script above all, is passed on as it is and at once.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from appliance.core.visible_text import indented, visible, visible_lines

_OURS = ("time", "level", "logger", "message")
_KNOWN_FROM_ELSEWHERE = frozenset({*_OURS, "job", "pod", "role", "traceback"})
_MAX_LINE = 1 << 20
"""A longer line is none of ours, and is not waited for."""


def readable(pieces: Iterable[str]) -> Iterator[str]:
    """Yield a log as text, piece by piece.

    A piece that may be part of a line of ours waits for the line's end; others do not.

    Args:
        pieces: The log as it is stored, cut anywhere.
    """
    begun, is_new_line = "", True
    for piece in pieces:
        for part in piece.splitlines(keepends=True):
            if not begun and not (is_new_line and part.startswith("{")):
                yield part
            else:
                begun += part
                if begun.endswith("\n") or len(begun) > _MAX_LINE:
                    yield as_text(begun)
                    begun = ""
            is_new_line = part.endswith("\n")
    if begun:
        yield as_text(begun)


def for_terminal(pieces: Iterable[str]) -> Iterator[str]:
    """Yield text of which a terminal obeys line breaks and tabs alone.

    A carriage return, with which programs write over a line of progress, begins a new line.

    Args:
        pieces: The text, cut anywhere.
    """
    was_return = False
    for piece in pieces:
        text = piece[1:] if was_return and piece.startswith("\n") else piece
        was_return = piece.endswith("\r") if piece else was_return
        yield visible_lines(text.replace("\r\n", "\n").replace("\r", "\n"))


def as_text(line: str) -> str:
    """Return a line of ours as text, any other as it is."""
    record = _record_of(line)
    if record is None:
        return line
    fields = "".join(
        f" {name}={value}" for name, value in record.items() if name not in _KNOWN_FROM_ELSEWHERE
    )
    text = visible(f"{record['time']} {record['level']:<7} {record['message']}{fields}")
    if record.get("traceback"):
        text += f"\n{indented(str(record['traceback']))}"
    return text + ("\n" if line.endswith("\n") else "")


# `Any`: values of a JSON object.
def _record_of(line: str) -> Mapping[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    is_ours = isinstance(record, dict) and all(isinstance(record.get(name), str) for name in _OURS)
    return record if is_ours else None
