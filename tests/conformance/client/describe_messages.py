"""Write what the client's messages look like on the wire, as JSON, to the file that is named.

The result maps each message, enumeration and service to its fields, values and methods: by number,
a field's name and type (with `repeated` in front where it is), by number a value's name, and by
name a method's two messages. It runs in the appliance's environment too, for its own stubs.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import sys
from pathlib import Path

SCALARS = (
    *("?", "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string"),
    *("group", "message", "bytes", "uint32", "enum", "sfixed32", "sfixed64", "sint32", "sint64"),
)


def type_of(field) -> str:
    """Return a field's type; protobuf 4 has a label, later ones do not."""
    named = field.message_type or field.enum_type
    name = named.full_name if named else SCALARS[field.type]
    is_repeated = getattr(field, "is_repeated", None)
    if is_repeated is None:
        is_repeated = field.label == field.LABEL_REPEATED
    return f"repeated {name}" if is_repeated else name


def add_message(found: dict[str, dict], message) -> None:
    """Add a message, and what is declared within it."""
    fields = {str(field.number): f"{field.name}: {type_of(field)}" for field in message.fields}
    found[message.full_name] = fields
    for inner in message.nested_types:
        add_message(found, inner)
    for enumeration in message.enum_types:
        add_enumeration(found, enumeration)


def add_enumeration(found: dict[str, dict], enumeration) -> None:
    """Add an enumeration."""
    found[enumeration.full_name] = {str(value.number): value.name for value in enumeration.values}


def described(package: str) -> dict[str, dict]:
    """Return what all stubs of a package declare."""
    found: dict[str, dict] = {}
    root = importlib.import_module(package)
    for module in pkgutil.walk_packages(root.__path__, f"{package}."):
        if not module.name.endswith("_pb2"):
            continue
        file = importlib.import_module(module.name).DESCRIPTOR
        for message in file.message_types_by_name.values():
            add_message(found, message)
        for enumeration in file.enum_types_by_name.values():
            add_enumeration(found, enumeration)
        for service in file.services_by_name.values():
            found[service.full_name] = {
                method.name: f"{method.input_type.full_name} -> {method.output_type.full_name}"
                for method in service.methods
            }
    return found


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(described(sys.argv[1])))
