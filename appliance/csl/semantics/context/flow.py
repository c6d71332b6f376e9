"""What `break`, `continue` and `return` leave, and the value that they carry."""

from dataclasses import dataclass

from appliance.csl.semantics.values.types import Type
from appliance.csl.semantics.values.values import VOID, Value
from appliance.csl.syntax import tree


@dataclass(frozen=True, slots=True)
class Side:
    """A value that one of several ways brings: the block in which it is known, and its source."""

    block: int
    value: Value
    node: tree.Node


class Exit:
    """Something that `break`, `continue` or `return` leaves.

    Code that leaves it from inside a branch decided at run time jumps to a block, which is made
    when the first such jump needs it.
    """

    __slots__ = (
        "break_block", "continue_block", "is_loop", "is_unrolled", "label", "nesting", "sides",
        "type",
    )  # fmt: skip

    def __init__(
        self,
        label: str | None,
        *,
        nesting: int,
        is_loop: bool,
        is_unrolled: bool = True,
        type_: Type | None = None,
    ) -> None:
        self.label = label
        self.nesting = nesting
        self.is_loop = is_loop
        self.is_unrolled = is_unrolled
        self.type = type_
        self.break_block: int | None = None
        self.continue_block: int | None = None
        self.sides: list[Side] = []
        """Jumps to `break_block` with a value, each from a block of its own that is still open."""


class Flow:
    """An early exit: from which construct, how, and with which value."""

    __slots__ = ("kind", "target", "value")

    def __init__(self, kind: str, target: Exit, value: Value = VOID) -> None:
        self.kind = kind
        self.target = target
        self.value = value
