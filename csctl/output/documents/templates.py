r"""Templates of `-o`: columns of one's own, and texts with paths in them, as kubectl has them.

`custom-columns=NAME:.meta.name,PHASE:.status.phase` is a table with a row for each object;
`jsonpath={range .items[*]}{.meta.name}{"\n"}{end}` a text about the document of `-o json`.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from appliance.core.errors import UserError
from csctl.output.documents.document import Json
from csctl.output.documents.json_path import JsonPath, Reader, parse_path
from csctl.output.table import Column, render

_NOTHING = "<none>"
_BRACED = re.compile(r"\{(.*)\}", re.DOTALL)
_WORD = re.compile(r"(range|end)(?=[\s}])")
_TEXT = re.compile(r"[^{]+")
_COMMAS = re.compile(r",(?![^\[]*\])")
_COLUMNS_HINT = "Write, say, custom-columns=NAME:.meta.name,PHASE:.status.phase."


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomColumns:
    """A table of chosen values.

    Attributes:
        columns: Header and path of each.
    """

    columns: tuple[tuple[str, JsonPath], ...]

    def of(self, documents: Sequence[Json]) -> str:
        """Return the table, without a final newline."""
        made: list[Column[Json]] = [
            Column(header=header, cell=_cell(path)) for header, path in self.columns
        ]
        return render(made, documents)


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonPathTemplate:
    """A text with paths in it.

    Attributes:
        parts: Its parts, each of which writes its text about a document.
    """

    parts: tuple[Callable[[Json], str], ...]

    def of(self, document: Json) -> str:
        """Return the text."""
        return "".join(part(document) for part in self.parts)


Template = CustomColumns | JsonPathTemplate


def parse_template(text: str) -> Template:
    """Return the template that follows `-o`.

    Raises:
        UserError: It is none of those that there are, or is not understood.
    """
    kind, _, body = text.partition("=")
    if kind == "custom-columns":
        return _custom_columns(body)
    return _json_path(body)


def _custom_columns(body: str) -> CustomColumns:
    columns = []
    for part in _COMMAS.split(body):
        header, colon, path = part.partition(":")
        if not (header and colon and path):
            raise UserError(f"Column '{part[:80]}' is no HEADER:PATH.", hint=_COLUMNS_HINT)
        braced = _BRACED.fullmatch(path)
        inner = braced[1] if braced else path
        columns.append((header, parse_path(inner if inner[0] in ".[$@" else f".{inner}")))
    return CustomColumns(columns=tuple(columns))


def _json_path(body: str) -> JsonPathTemplate:
    if "{" not in body:
        raise UserError(
            f"Template '{body[:80]}' has no path in braces.",
            hint="Write, say, jsonpath='{.items[*].meta.name}'.",
        )
    reader = Reader(body)
    parts = tuple(_parts(reader, is_inner=False))
    return JsonPathTemplate(parts=parts)


def _parts(reader: Reader, *, is_inner: bool) -> Iterator[Callable[[Json], str]]:
    """Yield the parts of a template, up to the end that belongs to a range."""
    while reader.at < len(reader.text):
        if (text := reader.take(_TEXT)) is not None:
            yield _constant(text[0])
            continue
        reader.has("{")
        reader.blanks()
        word = reader.take(_WORD)
        if word is not None and word[1] == "end":
            if not is_inner:
                raise UserError(f"'{reader.text[:80]}' has an {{end}} without a range.")
            _close(reader)
            return
        yield _repeated(reader) if word is not None else _one(reader)
    if is_inner:
        raise UserError(f"'{reader.text[:80]}' has a range without an {{end}}.")


def _repeated(reader: Reader) -> Callable[[Json], str]:
    reader.blanks()
    path = reader.path()
    _close(reader)
    inner = tuple(_parts(reader, is_inner=True))
    return lambda document: "".join(part(each) for each in path.select(document) for part in inner)


def _one(reader: Reader) -> Callable[[Json], str]:
    quoted = reader.quoted()
    if quoted is not None:
        _close(reader)
        return _constant(quoted)
    path = reader.path()
    _close(reader)
    return lambda document: " ".join(map(_text, path.select(document)))


def _close(reader: Reader) -> None:
    reader.blanks()
    if not reader.has("}"):
        raise reader.fail()


def _constant(text: str) -> Callable[[Json], str]:
    return lambda document: text


def _cell(path: JsonPath) -> Callable[[Json], str]:
    return lambda document: ",".join(map(_text, path.select(document))) or _NOTHING


def _text(value: Json) -> str:
    """Return a value as text: a string as it is, anything else as JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value, sort_keys=True, default=dict) if value is not None else ""
