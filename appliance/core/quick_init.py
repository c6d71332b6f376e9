"""Frozen dataclasses with slots that are made dozens of times for each job, made in half the time.

The `__init__` that `dataclasses` writes for a frozen class sets each field by
`object.__setattr__`, which looks the field's slot up by name. Here the slots set themselves.
See docs/decisions/0282-frozen-values-set-their-slots.md.
"""

from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, fields
from typing import Any, TypeVar

_Kind = TypeVar("_Kind", bound=type)


def quick_init(kind: _Kind) -> _Kind:
    """Give a frozen dataclass with slots an `__init__` of the same signature and effect.

    Raises:
        TypeError: The class has no slots, or fields that are no arguments.
    """
    mine = fields(kind)
    known: dict[str, Any] = {"MISSING": MISSING}  # `Any`: defaults, and functions that set slots
    if "__slots__" not in vars(kind) or not all(each.init for each in mine):
        raise TypeError(f"{kind.__qualname__} has no slots, or fields that are no arguments")
    for each in mine:
        known[f"set_{each.name}"] = getattr(kind, each.name).__set__
        known[f"default_{each.name}"] = each.default
        known[f"make_{each.name}"] = each.default_factory
    body = list(_statements(mine, has_check=hasattr(kind, "__post_init__")))
    exec(f"def __init__({', '.join(_parameters(mine))}):\n " + "\n ".join(body), known)
    made: Callable[..., None] = known["__init__"]
    made.__qualname__ = f"{kind.__qualname__}.__init__"
    made.__module__ = kind.__module__
    made.__annotations__ = kind.__init__.__annotations__  # type: ignore[misc] # of this very class
    kind.__init__ = made  # type: ignore[misc] # which is what this is about
    return kind


def _parameters(mine: tuple[Field[Any], ...]) -> Iterator[str]:
    """Yield the parameters: those by position first, as `dataclasses` orders them."""
    yield "self"
    yield from (_parameter(each) for each in mine if not each.kw_only)
    if any(each.kw_only for each in mine):
        yield "*"
    yield from (_parameter(each) for each in mine if each.kw_only)


def _parameter(field: Field[Any]) -> str:
    if field.default is not MISSING:
        return f"{field.name}=default_{field.name}"
    return field.name if field.default_factory is MISSING else f"{field.name}=MISSING"


def _statements(mine: tuple[Field[Any], ...], *, has_check: bool) -> Iterator[str]:
    for each in mine:
        name = each.name
        made = name
        if each.default_factory is not MISSING:
            made = f"make_{name}() if {name} is MISSING else {name}"
        yield f"set_{name}(self, {made})"
    if has_check:
        yield "self.__post_init__()"
    yield "return None"
