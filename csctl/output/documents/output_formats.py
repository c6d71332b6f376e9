"""The output formats: text for people, documents for scripts."""

import importlib
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Protocol, assert_never

from google.protobuf.message import Message

from csctl.output.documents.document import Json, as_json, to_document, to_list


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


class Table(Protocol):
    """Makes the answer's text."""

    def __call__(self, *, wide: bool, coloured: bool) -> str:
        """Return the text without a final newline."""
        ...


def format_list(
    messages: Iterable[Message],
    *,
    table: Table,
    output: OutputFormat,
    debug: int = 0,
    coloured: bool = False,
) -> str:
    """Return the resources in the form asked for; a document has them under `items`."""
    kept = tuple(messages)
    if output is OutputFormat.NAME:
        return "\n".join(name_of(message) for message in kept)
    return _format(
        lambda: to_list(kept, debug=debug), table=table, output=output, coloured=coloured
    )


def format_one(
    message: Message,
    *,
    table: Table,
    output: OutputFormat,
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
    document: Mapping[str, Json], *, text: Callable[[], str], output: OutputFormat
) -> str:
    """Return what is no resource of the cluster in the form asked for."""
    match output:
        case OutputFormat.JSON:
            return as_json(document)
        case OutputFormat.YAML:
            return as_yaml(document)
        case OutputFormat.TABLE | OutputFormat.WIDE | OutputFormat.NAME:
            return text()
        case _:
            assert_never(output)


def _format(
    document: Callable[[], dict[str, Json]], *, table: Table, output: OutputFormat, coloured: bool
) -> str:
    match output:
        case OutputFormat.JSON:
            return as_json(document())
        case OutputFormat.YAML:
            return as_yaml(document())
        case OutputFormat.TABLE | OutputFormat.WIDE | OutputFormat.NAME:
            return table(wide=output is OutputFormat.WIDE, coloured=coloured)
        case _:
            assert_never(output)
