"""What `break`, `continue` and `return` leave, and the value that they carry."""

from appliance.csl.semantics.values.place_kinds import Place
from appliance.csl.semantics.values.types import Type
from appliance.csl.semantics.values.values import VOID, Value


class Exit:
    """Something that `break`, `continue` or `return` leaves.

    Code that leaves it from inside a branch decided at run time jumps to a block; the blocks
    and the place of the value are made when the first such jump needs them.
    """

    __slots__ = (
        "break_block", "continue_block", "is_loop", "is_unrolled", "label", "nesting", "place",
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
        self.place: Place | None = None


class Flow:
    """An early exit: from which construct, how, and with which value."""

    __slots__ = ("kind", "target", "value")

    def __init__(self, kind: str, target: Exit, value: Value = VOID) -> None:
        self.kind = kind
        self.target = target
        self.value = value
