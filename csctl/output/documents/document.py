"""Objects as JSON and YAML: the stable form for scripts.

Names and values follow protobuf's JSON mapping (`meta.createTime`), but every number is a number:
64-bit ones too, those that travel as text among a resource's properties, priorities (299 of
`P2 (299)`), and memory, in bytes. Keys are sorted, and a key is there even when its value is empty,
so that a script need not ask first.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

Json: TypeAlias = "Mapping[str, Json] | list[Json] | str | int | float | bool | None"


_WIDE = frozenset(
    {
        FieldDescriptor.CPPTYPE_INT64,
        FieldDescriptor.CPPTYPE_UINT64,
    }
)
_NUMBER = re.compile(r"-?\d+(\.\d+)?(e[-+]?\d+)?")
_TEXTS = frozenset({"message", "dashboard"})
"""Properties that are text whatever they look like."""
_PRIORITY = re.compile(r"(?:P\d \()?(\d+)\)?")
_MEMORY = re.compile(r"(\d+)([KMGT])i")
_UNITS: Mapping[str, int] = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def to_document(message: Message, *, debug: int = 0) -> dict[str, Json]:
    """Return the object as plain data.

    Args:
        message: One resource.
        debug: Level of `--debug`. The cluster may give a field a priority (`meta.field_priority`,
            by its path such as `status.replicas`); it shows from that level on.
    """
    document: dict[str, Json] = MessageToDict(message, always_print_fields_with_no_presence=True)
    _restore_numbers(message, document)
    meta = document.get("meta")
    properties = meta.get("properties") if isinstance(meta, dict) else None
    if isinstance(properties, dict):
        properties.update(
            (key, float(text) if set(text) & set(".e") else int(text))
            for key, text in properties.items()
            if key not in _TEXTS and _NUMBER.fullmatch(text)
        )
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


def _restore_numbers(message: Message, document: dict[str, Json]) -> None:
    """Put the 64-bit numbers of a message, which its JSON mapping has as text, back in place."""
    for field, value in message.ListFields():
        made = document.get(field.json_name)
        entry = field.message_type
        if entry is not None and entry.GetOptions().map_entry:
            of = entry.fields_by_name["value"]
            if isinstance(made, dict):
                for key in value:
                    made[str(key)] = _restored(of, value[key], made[str(key)])
        elif field.is_repeated and isinstance(made, list):
            made[:] = [_restored(field, *pair) for pair in zip(value, made, strict=True)]
        else:
            document[field.json_name] = _restored(field, value, made)
    for each in message.DESCRIPTOR.fields:
        if each.cpp_type in _WIDE and document.get(each.json_name) == "0":
            document[each.json_name] = 0


# `Any`: a value of any field.
def _restored(field: FieldDescriptor, value: Any, made: Json) -> Json:  # noqa: ANN401
    if field.cpp_type in _WIDE:
        return int(value)
    if isinstance(value, Message) and isinstance(made, dict):
        _restore_numbers(value, made)
    if isinstance(value, str):
        return _number_in(field.name, value)
    return made


def _number_in(name: str, text: str) -> Json:
    """Return the number that a field has as text, else the text."""
    if name == "priority" and (found := _PRIORITY.fullmatch(text)):
        return int(found[1])
    if name.startswith("memory_") and (found := _MEMORY.fullmatch(text)):
        return int(found[1]) * _UNITS[found[2]]
    return text


def _drop(document: dict[str, Json], path: list[str]) -> None:
    """Remove the field at `path`; a path that leads nowhere is not an error."""
    *parents, last = path
    inner: Json = document
    for name in parents:
        inner = inner.get(name) if isinstance(inner, dict) else None
    if isinstance(inner, dict):
        inner.pop(last, None)
