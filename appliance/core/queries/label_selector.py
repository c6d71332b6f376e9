"""Which labels a job in a list must have, written as kubectl's selectors are.

`model=gpt,lr!=1e-3,seed in (1,2),stage notin (old),owner,!draft`: every part must hold. As with
kubectl, `!=` and `notin` are also true of a job that has no such label.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from appliance.core.errors import UserError

_PART = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_KEY = re.compile(_PART)
_VALUE = re.compile(f"(?:{_PART})?")
_EXISTS = re.compile(r"(!?)\s*([^\s=!(),]*)")
_EQUALS = re.compile(r"([^\s=!(),]*)\s*(==|!=|=)\s*([^\s=!(),]*)")
_IS_IN = re.compile(r"([^\s=!(),]*)\s+(in|notin)\s*\(([^()]*)\)")
_PIECES = re.compile(r"[(),]")
_MAX_CHARACTERS = 16_384
"""Of all selectors of one request: some hundred long labels, or a thousand short values."""
_RULE = (
    "Write key=value, key!=value, key in (a,b), key notin (a,b), key or !key, with commas between; "
    "keys and values have 1 to 63 letters, digits, '-', '_' and '.', with a letter or digit at "
    "both ends, and a value may be empty."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelRequirement:
    """What one part of a selector asks for.

    Attributes:
        key: The label.
        values: The values that it may have; None for any.
        is_excluded: Whether the contrary is asked for: no such label with such a value.
    """

    key: str
    values: tuple[str, ...] | None = None
    is_excluded: bool = False

    def accepts(self, labels: Mapping[str, str]) -> bool:
        """Whether labels are as this asks for."""
        has = self.key in labels and (self.values is None or labels[self.key] in self.values)
        return has is not self.is_excluded

    @property
    def text(self) -> str:
        """It, as a person writes it."""
        if self.values is None:
            return f"!{self.key}" if self.is_excluded else self.key
        if len(self.values) == 1:
            return f"{self.key}{'!=' if self.is_excluded else '='}{self.values[0]}"
        word = "notin" if self.is_excluded else "in"
        return f"{self.key} {word} ({','.join(self.values)})"


def equal_to(labels: Mapping[str, str]) -> tuple[LabelRequirement, ...]:
    """Return what asks for all of some labels with these values."""
    return tuple(LabelRequirement(key=key, values=(value,)) for key, value in labels.items())


def parse_selector(texts: Sequence[str]) -> tuple[LabelRequirement, ...]:
    """Return what selectors ask for together.

    Args:
        texts: Each a selector of one or more parts with commas between.

    Raises:
        UserError: A part is not understood, two parts can never both be true, or they are long.
    """
    if (size := sum(map(len, texts))) > _MAX_CHARACTERS:
        raise UserError(
            f"The selector has {size:,} characters; {_MAX_CHARACTERS:,} are the most.",
            hint="Ask for fewer labels.",
        )
    found = [_requirement(part, text) for text in texts for part in _parts(text)]
    _check_possible(found)
    return tuple(dict.fromkeys(found))


def _parts(text: str) -> Iterator[str]:
    """Yield what stands between the commas that are in no parentheses."""
    begin, depth = 0, 0
    for mark in _PIECES.finditer(text):
        if mark[0] != ",":
            depth += 1 if mark[0] == "(" else -1
        elif depth <= 0:
            yield text[begin : mark.start()]
            begin = mark.end()
    yield text[begin:]


def _requirement(part: str, text: str) -> LabelRequirement:
    word = part.strip(" \t")
    if match := _IS_IN.fullmatch(word):
        values = tuple(dict.fromkeys(each.strip(" \t") for each in match[3].split(",")))
        made = LabelRequirement(key=match[1], values=values, is_excluded=match[2] == "notin")
    elif match := _EQUALS.fullmatch(word):
        made = LabelRequirement(key=match[1], values=(match[3],), is_excluded=match[2] == "!=")
    elif match := _EXISTS.fullmatch(word):
        made = LabelRequirement(key=match[2], is_excluded=bool(match[1]))
    else:
        raise _not_understood(part, text)
    if not _KEY.fullmatch(made.key) or not all(map(_VALUE.fullmatch, made.values or ())):
        raise _not_understood(part, text)
    return made


def _not_understood(part: str, text: str) -> UserError:
    where = "" if part == text else f" at '{part}'"
    return UserError(f"Selector '{text[:200]}' is not understood{where[:200]}.", hint=_RULE)


def _check_possible(found: Iterable[LabelRequirement]) -> None:
    """Refuse two values of one key, which is a slip: nothing has both."""
    wanted: dict[str, str] = {}
    for each in found:
        if each.is_excluded or each.values is None or len(each.values) != 1:
            continue
        value = each.values[0]
        if wanted.setdefault(each.key, value) != value:
            raise UserError(
                f"Label '{each.key}' is to be '{wanted[each.key]}' and '{value}'.",
                hint=f"Nothing has both; keep one, or write '{each.key} in (...)'.",
            )
