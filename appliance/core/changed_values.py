"""A value with some fields changed, where that is done for every call and every step of a job."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, NamedTuple, TypeVar

_Value = TypeVar("_Value")


def changed(value: _Value, **changes: Any) -> _Value:  # noqa: ANN401 - the values of fields
    """Return a dataclass's value with other values of some fields.

    It does what `dataclasses.replace` does, which takes thrice as long, for a class with slots;
    what a class checks when a value is made is not checked.

    Raises:
        KeyError: The class has no such field.
    """
    kind = type(value)
    access = _ACCESS.get(kind) or _learn(kind)
    new = object.__new__(kind)
    access.copy(new, value)
    for name, each in changes.items():
        access.setters[name](new, each)
    return new


class _Access(NamedTuple):
    """How the fields of a class are copied from one value to another, and set one by one."""

    copy: Callable[[Any, Any], None]  # `Any`: values of the class
    setters: Mapping[str, Callable[[Any, Any], None]]


_ACCESS: dict[type[Any], _Access] = {}


def _learn(kind: type[Any]) -> _Access:
    """Learn a class's access; its copying is written as code, as dataclasses write `__init__`."""
    names = [each.name for each in fields(kind)]
    setters = {name: getattr(kind, name).__set__ for name in names}
    statements = [f"set_{name}(new, old.{name})" for name in names]
    known: dict[str, Any] = {f"set_{name}": each for name, each in setters.items()}
    exec("def copy(new, old):\n " + "\n ".join(statements), known)
    found = _ACCESS[kind] = _Access(known["copy"], setters)
    return found
