"""Parses labels as a user types them: filters (`k=v,k2=v2`) and changes (`k=v`, `k-`)."""

import re
from collections.abc import Sequence

from appliance.core.errors import UserError

_MAX_CHARACTERS = 63
_PART = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]")
_RULE = (
    f"Keys have 1 to {_MAX_CHARACTERS} letters, digits, '-', '_' and '.', with a letter or digit "
    "at both ends; so have values, which may be empty, too."
)


def parse_filters(texts: Sequence[str]) -> dict[str, str]:
    """Return the pairs that a job's labels must all have.

    Args:
        texts: Each `key=value`, or several with commas between.

    Raises:
        UserError: A text is not a label, or a key comes twice with two values.
    """
    filters: dict[str, str] = {}
    for pair in (part for text in texts for part in text.split(",")):
        key, value = _parse_pair(pair)
        if filters.setdefault(key, value) != value:
            raise UserError(
                f"Filter label '{key}' is given as '{filters[key]}' and as '{value}'.",
                hint="No job has both; keep one.",
            )
    return filters


def parse_changes(texts: Sequence[str]) -> dict[str, str | None]:
    """Return the new value by key; None removes the label.

    Raises:
        UserError: A text is neither `key=value` nor `key-`, or a key comes twice.
    """
    changes: dict[str, str | None] = {}
    for text in texts:
        key, value = _parse_change(text)
        if key in changes:
            raise UserError(
                f"Label '{key}' is changed twice in one command.", hint="Name each label once."
            )
        changes[key] = value
    return changes


def _parse_change(text: str) -> tuple[str, str | None]:
    if "=" not in text and text.endswith("-"):
        return _checked(text[:-1], text), None
    return _parse_pair(text)


def _parse_pair(text: str) -> tuple[str, str]:
    if text.count("=") != 1:
        raise UserError(
            f"Label '{text}' has {text.count('=')} '=' characters; it needs exactly 1.",
            hint="Write key=value.",
        )
    key, value = text.split("=")
    return _checked(key, text), _checked(value, text) if value else ""


def _checked(part: str, text: str) -> str:
    if not _PART.fullmatch(part):
        raise UserError(f"Label '{text}': '{part}' is not a valid key or value.", hint=_RULE)
    return part
