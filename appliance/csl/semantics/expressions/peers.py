"""The one type of several values that meet: operands, and the sides of an `if` or `switch`."""

from collections.abc import Iterable

from appliance.csl.semantics.values import types as t
from appliance.csl.semantics.values.types import Type

LITERALS = (t.COMPTIME_INT, t.COMPTIME_FLOAT)


def wider(a: Type, b: Type) -> Type | None:
    """The one of two types to which values of the other convert without `@as`."""
    for narrow, wide in ((a, b), (b, a)):
        if isinstance(wide, t.IntType) and isinstance(narrow, t.IntType):
            if wide.low <= narrow.low and narrow.high <= wide.high:
                return wide
        elif isinstance(narrow, t.FloatType) and wide is t.F32:
            return wide
    return None


def peer_type(types: Iterable[Type]) -> Type | None:
    """The type in which values of several types meet; None if there is none.

    `comptime_int` and `comptime_float` adapt to the others; of two numbers one holds the other;
    a pointer to an array becomes one to many; a pointer to constants takes one to variables.
    """
    found: Type | None = None
    for type_ in types:
        found = type_ if found is None else _of_two(found, type_)
        if found is None:
            return None
    return found


def _of_two(a: Type, b: Type) -> Type | None:
    if a is b:
        return a
    if a in LITERALS or b in LITERALS:
        return _with_literal(a, b)
    if isinstance(a, t.PointerType) and isinstance(b, t.PointerType):
        return _of_pointers(a, b)
    same_kind = isinstance(a, t.IntType) is isinstance(b, t.IntType)
    return wider(a, b) if same_kind else None


def _with_literal(a: Type, b: Type) -> Type | None:
    if a in LITERALS and b in LITERALS:
        return t.COMPTIME_FLOAT
    fixed = b if a in LITERALS else a
    return fixed if isinstance(fixed, t.IntType | t.FloatType) else None


def _of_pointers(a: t.PointerType, b: t.PointerType) -> Type | None:
    const = a.const or b.const
    if a.target is b.target and a.many == b.many:
        return t.pointer_type(a.target, const=const, many=a.many)
    elements = [_element(pointer) for pointer in (a, b)]
    if elements[0] is not elements[1] or elements[0] is None:
        return None
    return t.pointer_type(elements[0], const=const, many=True)


def _element(pointer: t.PointerType) -> Type | None:
    """What a pointer points to as one to many; None if it does not become one."""
    if pointer.many:
        return pointer.target
    return pointer.target.element if isinstance(pointer.target, t.ArrayType) else None
