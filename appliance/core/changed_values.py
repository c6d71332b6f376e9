"""A value with some fields changed, where that is done for every call and every step of a job."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from operator import attrgetter
from typing import Any, TypeVar

_Value = TypeVar("_Value")

# `Any`: the values of fields.
_Read = Callable[[Any], tuple[Any, ...]]
_Write = Callable[[Any, Any], None]


def changed(value: _Value, **changes: Any) -> _Value:  # noqa: ANN401 - the values of fields
    """Return a dataclass's value with other values of some fields.

    It does what `dataclasses.replace` does, which takes twice as long, for a class with slots and
    two fields or more; what a class checks when a value is made is not checked.

    Raises:
        KeyError: The class has no such field.
    """
    kind = type(value)
    read, writers = _ACCESS.get(kind) or _learn(kind)
    new = object.__new__(kind)
    for write, each in zip(writers.values(), read(value), strict=True):
        write(new, each)
    for name, each in changes.items():
        writers[name](new, each)
    return new


_ACCESS: dict[type[Any], tuple[_Read, Mapping[str, _Write]]] = {}
"""What reads all fields of a class, and what writes each, in one order."""


def _learn(kind: type[Any]) -> tuple[_Read, Mapping[str, _Write]]:
    names = tuple(each.name for each in fields(kind))
    found = attrgetter(*names), {name: getattr(kind, name).__set__ for name in names}
    _ACCESS[kind] = found
    return found
