"""Parses labels as a user types them: new ones (`k=v,k2=v2`), changes (`k=v`, `k-`), selectors."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from appliance.core.errors import UserError
from appliance.core.queries.label_selector import parse_selector

_MAX_CHARACTERS = 63
_PART = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]")
_RULE = (
    f"Keys have 1 to {_MAX_CHARACTERS} letters, digits, '-', '_' and '.', with a letter or digit "
    "at both ends; so have values, which may be empty, too."
)


SELECTORS = "K=V, K!=V, K in (V,...), K notin (V,...), K or !K"
"""What a selector may say, for the help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which labels are asked for, as requests have it.

    Attributes:
        label_filters: Labels that must be there with these values.
        selectors: What else must be true of them.
    """

    label_filters: dict[str, str]
    selectors: list[str]


def parse_selection(texts: Sequence[str]) -> Selection:
    """Return what selectors ask for together; raises `UserError`."""
    wanted = parse_selector(texts)
    equal = [each for each in wanted if not each.is_excluded and len(each.values or ()) == 1]
    return Selection(
        label_filters={each.key: value for each in equal for value in each.values or ()},
        selectors=[each.text for each in wanted if each not in equal],
    )


def parse_labels(texts: Sequence[str]) -> dict[str, str]:
    """Return the labels that something new is to have.

    Args:
        texts: Each `key=value`, or several with commas between.

    Raises:
        UserError: A text is not a label, or a key comes twice with two values.
    """
    labels: dict[str, str] = {}
    for pair in (part for text in texts for part in text.split(",")):
        key, value = _parse_pair(pair)
        if labels.setdefault(key, value) != value:
            raise UserError(
                f"Label '{key}' is given as '{labels[key]}' and as '{value}'.",
                hint="Nothing has both; keep one.",
            )
    return labels


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
