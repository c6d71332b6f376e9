"""Objects as JSON and YAML: the stable form for scripts.

Names and values follow protobuf's JSON mapping (`meta.createTime`, 64-bit numbers as text). Keys
are sorted, and a key is there even when its value is empty, so that a script need not ask first.
"""

import json
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

Json: TypeAlias = "Mapping[str, Json] | list[Json] | str | int | float | bool | None"


def to_document(message: Message, *, debug: int = 0) -> dict[str, Json]:
    """Return the object as plain data.

    Args:
        message: One resource.
        debug: Level of `--debug`. The cluster may give a field a priority (`meta.field_priority`,
            by its path such as `status.replicas`); it shows from that level on.
    """
    document: dict[str, Json] = MessageToDict(message, always_print_fields_with_no_presence=True)
    meta = document.get("meta")
    priorities = meta.pop("fieldPriority", {}) if isinstance(meta, dict) else {}
    for path, priority in priorities.items():
        if priority > debug:
            _drop(document, path.split("."))
    return document


def to_list(messages: Iterable[Message], *, debug: int = 0) -> dict[str, Json]:
    """Return the objects as one document with the key `items`."""
    return {"items": [to_document(message, debug=debug) for message in messages]}


def as_json(document: Mapping[str, Json]) -> str:
    """Return indented JSON with sorted keys, without a final newline."""
    return json.dumps(document, indent=2, sort_keys=True)


def _drop(document: dict[str, Json], path: list[str]) -> None:
    """Remove the field at `path`; a path that leads nowhere is not an error."""
    *parents, last = path
    inner: Json = document
    for name in parents:
        inner = inner.get(name) if isinstance(inner, dict) else None
    if isinstance(inner, dict):
        inner.pop(last, None)
