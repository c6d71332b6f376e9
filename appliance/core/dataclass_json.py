"""Dataclasses as JSON and back, by the types of their fields.

For values that one process passes to another of the same version: a missing field has its default,
and an unknown one is refused.
"""

import json
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from appliance.core.errors import InternalError

T = TypeVar("T")

_UNIONS = (Union, types.UnionType)


def to_json(value: object) -> str:
    """Return a dataclass as JSON text."""
    return json.dumps(_plain(value))


def from_json(type_: type[T], text: str) -> T:
    """Return the dataclass that `to_json` wrote.

    Raises:
        InternalError: It holds what the type does not know.
    """
    value: T = _typed(type_, json.loads(text), type_.__name__)
    return value


def _plain(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, Path) else value


# `Any`: types and JSON, of which the one says what the other is.
def _typed(type_: Any, value: Any, where: str) -> Any:  # noqa: ANN401 - see above
    if is_dataclass(type_):
        return _dataclass(type_, value, where)
    if get_origin(type_) in _UNIONS:
        (other,) = (each for each in get_args(type_) if each is not types.NoneType)
        return None if value is None else _typed(other, value, where)
    if get_origin(type_) is tuple:
        return tuple(_typed(get_args(type_)[0], each, where) for each in value)
    if type_ is Path or type_ is float or issubclass(type_, Enum):
        return type_(value)
    return value


def _dataclass(type_: Any, value: Mapping[str, Any], where: str) -> Any:  # noqa: ANN401 - see above
    hints = get_type_hints(type_)
    known = {field.name for field in fields(type_)}
    if unknown := sorted(set(value) - known):
        raise InternalError(f"{where} has no field {unknown[0]!r}.")
    return type_(
        **{name: _typed(hints[name], each, f"{where}.{name}") for name, each in value.items()}
    )
