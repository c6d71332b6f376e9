"""Typed access to the attributes of a node.

Only for graphs in normal form (`appliance.core.ir.ops`): a missing attribute, or one of another
kind, is then a defect of the compiler; it is reported with the node's name and place.
"""

from appliance.core.errors import InternalError
from appliance.core.ir.graph import Attribute, Node
from appliance.core.ir.tensors import Constant


def _missing(node: Node, name: str, kind: str, value: Attribute | None) -> InternalError:
    found = "missing" if value is None else repr(value)
    return InternalError(
        f"{node.op} at {node.location}: attribute {name!r} is {found}, not {kind}."
    )


def integers(node: Node, name: str, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
    """Return a vector of integers; a single integer counts as a vector of one."""
    value = node.attributes.get(name, default)
    if isinstance(value, int):
        return (int(value),)
    if not isinstance(value, tuple):
        raise _missing(node, name, "a vector of integers", value)
    return value


def integer(node: Node, name: str, default: int | None = None) -> int:
    """Return an integer; a vector of one integer counts as its element."""
    value = node.attributes.get(name, default)
    if isinstance(value, tuple) and len(value) == 1:
        return value[0]
    if not isinstance(value, int):
        raise _missing(node, name, "an integer", value)
    return int(value)


def number(node: Node, name: str, default: float | None = None) -> float:
    """Return a number as a float."""
    value = node.attributes.get(name, default)
    if not isinstance(value, int | float):
        raise _missing(node, name, "a number", value)
    return float(value)


def flag(node: Node, name: str, *, default: bool | None = False) -> bool:
    """Return a truth value; by default an absent attribute is false."""
    value = node.attributes.get(name, default)
    if not isinstance(value, int):
        raise _missing(node, name, "a truth value", value)
    return bool(value)


def text(node: Node, name: str, default: str | None = None) -> str:
    """Return a string."""
    value = node.attributes.get(name, default)
    if not isinstance(value, str):
        raise _missing(node, name, "a string", value)
    return value


def constant(node: Node, name: str) -> Constant:
    """Return a dense constant."""
    value = node.attributes.get(name)
    if not isinstance(value, Constant):
        raise _missing(node, name, "a constant", value)
    return value


def resolve_axis(axis: int, rank: int) -> int:
    """Return an axis counted from the front; negative ones count from the back."""
    return axis + rank if axis < 0 else axis


def resolve_axes(axes: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Return several axes counted from the front."""
    return tuple(resolve_axis(axis, rank) for axis in axes)
