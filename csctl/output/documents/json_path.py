r"""JSONPath as kubectl reads it: `.items[*].meta.name`, `.pods[?(@.node=="n0")]`, `..message`.

A path selects values of a document, in its order; what is not there is selected by nothing. Names
with dots are written `labels.a\.b` or `labels['a.b']`.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from appliance.core.errors import UserError
from csctl.output.documents.document import Json

Step: TypeAlias = Callable[[Json], Iterator[Json]]
"""Selects values in one that was selected."""

_NAME = re.compile(r"(?:[^\s.\[\]{}()'\"=<>!*,:?@$\\]|\\.)+")
_INTEGER = re.compile(r"-?\d{1,9}")
_SLICE = re.compile(r"(-?\d{1,9})?:(-?\d{1,9})?(?::(\d{1,9}))?")
_QUOTED = re.compile(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_COMPARISON = re.compile(r"==|!=|<=|>=|<|>")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_HINT = "Write paths as kubectl does: .meta.name, .items[0], .items[*].status.phase, ..message."

_COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonPath:
    """A path.

    Attributes:
        text: It, as it was written.
        steps: What it selects, step by step.
    """

    text: str
    steps: tuple[Step, ...]

    def select(self, document: Json) -> list[Json]:
        """Return the values that it selects."""
        found = [document]
        for step in self.steps:
            found = [value for each in found for value in step(each)]
        return found


class Reader:
    """Reads paths out of a text.

    Attributes:
        text: The text.
        at: Where it is read next.
    """

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def take(self, pattern: "re.Pattern[str]") -> "re.Match[str] | None":
        """Return what is next if it is like a pattern, and go behind it."""
        found = pattern.match(self.text, self.at)
        if found is not None:
            self.at = found.end()
        return found

    def has(self, word: str) -> bool:
        """Whether a word is next; goes behind it."""
        is_next = self.text.startswith(word, self.at)
        self.at += len(word) * is_next
        return is_next

    def fail(self) -> UserError:
        """Return the error that what is next is not understood."""
        rest = self.text[self.at : self.at + 40]
        where = f"at '{rest}'" if rest else "at its end"
        return UserError(f"'{self.text[:200]}' is not understood {where}.", hint=_HINT)

    def blanks(self) -> None:
        """Go behind blanks."""
        while self.has(" ") or self.has("\t"):
            pass

    def quoted(self) -> str | None:
        """Return the text between quotes that is next, if one is."""
        found = self.take(_QUOTED)
        return None if found is None else _unescaped(found[1] if found[2] is None else found[2])

    def path(self) -> JsonPath:
        """Return the path that is next; raises `UserError` if none is."""
        begin = self.at
        is_rooted = self.has("$") or self.has("@")
        steps = tuple(self._steps())
        if not steps and not is_rooted and not self.has("."):
            raise self.fail()
        return JsonPath(text=self.text[begin : self.at], steps=steps)

    def _steps(self) -> Iterator[Step]:
        while True:
            if self.has(".."):
                yield _descendants
                yield self._named()
            elif self.text.startswith(".[", self.at) or self.text.startswith("[", self.at):
                self.has(".")
                self.at += 1
                yield self._in_brackets()
            elif self.text.startswith(".", self.at) and not self._is_lone_dot():
                self.at += 1
                yield self._named()
            else:
                return

    def _is_lone_dot(self) -> bool:
        return self.text[self.at + 1 : self.at + 2] in ("", " ", "}")

    def _named(self) -> Step:
        if self.has("*"):
            return _everything
        if self.text.startswith("[", self.at):
            self.at += 1
            return self._in_brackets()
        if (found := self.take(_NAME)) is None:
            raise self.fail()
        return _field(re.sub(r"\\(.)", r"\1", found[0]))

    def _in_brackets(self) -> Step:
        self.blanks()
        if self.has("*"):
            step: Step = _everything
        elif self.has("?("):
            step = self._filter()
        else:
            step = _any_of(list(self._members()))
        self.blanks()
        if not self.has("]"):
            raise self.fail()
        return step

    def _members(self) -> Iterator[Step]:
        while True:
            self.blanks()
            if (name := self.quoted()) is not None:
                yield _field(name)
            elif (part := self.take(_SLICE)) is not None:
                begin, end, stride = (None if each is None else int(each) for each in part.groups())
                if stride == 0:
                    raise self.fail()
                yield _slice(slice(begin, end, stride))
            elif (number := self.take(_INTEGER)) is not None:
                yield _element(int(number[0]))
            else:
                raise self.fail()
            self.blanks()
            if not self.has(","):
                return

    def _filter(self) -> Step:
        self.blanks()
        left = self._operand()
        self.blanks()
        comparison = self.take(_COMPARISON)
        self.blanks()
        right = self._operand() if comparison else None
        self.blanks()
        if not self.has(")"):
            raise self.fail()
        return _where(left, comparison[0] if comparison else "", right)

    def _operand(self) -> "JsonPath | Json":
        if (text := self.quoted()) is not None:
            return text
        if (number := self.take(_NUMBER)) is not None:
            return float(number[0])
        for word, value in (("true", True), ("false", False)):
            if self.has(word):
                return value
        return self.path()


def parse_path(text: str) -> JsonPath:
    """Return the path that a whole text is; raises `UserError`."""
    reader = Reader(text)
    path = reader.path()
    if reader.at != len(text):
        raise reader.fail()
    return path


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), text)


def _field(name: str) -> Step:
    def step(value: Json) -> Iterator[Json]:
        if isinstance(value, Mapping) and name in value:
            yield value[name]

    return step


def _element(number: int) -> Step:
    def step(value: Json) -> Iterator[Json]:
        if isinstance(value, list) and -len(value) <= number < len(value):
            yield value[number]

    return step


def _slice(part: slice) -> Step:
    def step(value: Json) -> Iterator[Json]:
        if isinstance(value, list):
            yield from value[part]

    return step


def _any_of(members: list[Step]) -> Step:
    def step(value: Json) -> Iterator[Json]:
        for member in members:
            yield from member(value)

    return step


def _everything(value: Json) -> Iterator[Json]:
    if isinstance(value, Mapping):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _descendants(value: Json) -> Iterator[Json]:
    yield value
    for inner in _everything(value):
        yield from _descendants(inner)


def _where(left: "JsonPath | Json", comparison: str, right: "JsonPath | Json") -> Step:
    """Select the elements of a list of which a comparison, or the presence of a value, is true."""

    def step(value: Json) -> Iterator[Json]:
        for each in value if isinstance(value, list) else ():
            lefts = _values(left, each)
            if not comparison:
                is_true = bool(lefts)
            else:
                rights = _values(right, each)
                is_true = bool(lefts and rights) and _compare(lefts[0], comparison, rights[0])
            if is_true:
                yield each

    return step


def _values(operand: "JsonPath | Json", element: Json) -> list[Json]:
    return operand.select(element) if isinstance(operand, JsonPath) else [operand]


def _compare(left: Json, comparison: str, right: Json) -> bool:
    if comparison in ("==", "!="):
        return (left == right) is (comparison == "==")
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        return _COMPARE[comparison](left, right)
    return False
