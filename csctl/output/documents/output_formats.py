"""The output formats: text for people, documents for scripts."""

import importlib
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Protocol, TypeAlias, assert_never

from google.protobuf.message import Message

from appliance.core.errors import UserError
from csctl.output.documents.document import Json, as_json, to_document, to_list
from csctl.output.documents.templates import (
    CustomColumns,
    JsonPathTemplate,
    Template,
    parse_template,
)


class OutputFormat(StrEnum):
    """Value of `-o`."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


def as_yaml(document: Mapping[str, Json]) -> str:
    """Return block-style YAML with sorted keys, without a final newline."""
    text: str = importlib.import_module("csctl.output.documents.yaml_text").dump_yaml(document)
    return text


Output: TypeAlias = OutputFormat | Template
"""Value of `-o`: a form, or a template of one's own."""

_TEMPLATES = ("custom-columns", "jsonpath")


def parse_output(text: str) -> Output:
    """Return the form that `-o` asks for; raises `UserError`."""
    if text.partition("=")[0] in _TEMPLATES:
        return parse_template(text)
    if text in tuple(OutputFormat):
        return OutputFormat(text)
    forms = ", ".join([*OutputFormat, *(f"{name}=..." for name in _TEMPLATES)])
    raise UserError(f"There is no form of answers {text[:80]!r}.", hint=f"Give one of {forms}.")


def is_table(output: Output) -> bool:
    """Whether an answer is a table for people, with our columns."""
    return output is OutputFormat.TABLE or output is OutputFormat.WIDE


class Table(Protocol):
    """Makes the answer's text."""

    def __call__(self, *, wide: bool, coloured: bool) -> str:
        """Return the text without a final newline."""
        ...


def format_list(
    messages: Iterable[Message],
    *,
    table: Table,
    output: Output,
    debug: int = 0,
    coloured: bool = False,
) -> str:
    """Return the resources in the form asked for; a document has them under `items`."""
    kept = tuple(messages)
    if output is OutputFormat.NAME:
        return "\n".join(name_of(message) for message in kept)
    if isinstance(output, CustomColumns):
        return output.of([to_document(message, debug=debug) for message in kept])
    return _format(
        lambda: to_list(kept, debug=debug), table=table, output=output, coloured=coloured
    )


def format_one(
    message: Message,
    *,
    table: Table,
    output: Output,
    debug: int = 0,
    coloured: bool = False,
) -> str:
    """Return one resource in the form asked for."""
    if output is OutputFormat.NAME:
        return name_of(message)
    return _format(
        lambda: to_document(message, debug=debug), table=table, output=output, coloured=coloured
    )


def name_of(message: Message) -> str:
    """Return a resource's name, by which other commands take it."""
    named = getattr(message, "meta", message)
    fields = ("run_id", "name", "job", "workflow_id", "user_id")
    return next((str(name) for field in fields if (name := getattr(named, field, ""))), "")


def format_document(
    document: Mapping[str, Json], *, text: Callable[[], str], output: Output
) -> str:
    """Return what is no resource of the cluster in the form asked for."""

    def table(*, wide: bool, coloured: bool) -> str:
        return text()

    return _format(lambda: dict(document), table=table, output=output, coloured=False)


def _format(
    document: Callable[[], dict[str, Json]], *, table: Table, output: Output, coloured: bool
) -> str:
    match output:
        case OutputFormat.JSON:
            return as_json(document())
        case OutputFormat.YAML:
            return as_yaml(document())
        case OutputFormat.TABLE | OutputFormat.WIDE | OutputFormat.NAME:
            return table(wide=output is OutputFormat.WIDE, coloured=coloured)
        case CustomColumns():
            return output.of([document()])
        case JsonPathTemplate():
            return output.of(document())
        case _:
            assert_never(output)
