"""What lowering one function needs to know: its class, its slots, its operands."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from appliance.csl.program import (
    Address,
    CodeClass,
    Constant,
    DescriptorConstant,
    Function,
    FunctionAddress,
    MachineType,
    Place,
    Register,
)
from appliance.fabric.descriptors import ShapeTable, encode_descriptor
from appliance.fabric.floats import encode_float
from appliance.fabric.lowering.emitter import Emitter
from appliance.fabric.lowering.frames import Frame, Window
from appliance.wafer.hardware import Machine


@dataclass(kw_only=True)
class ClassContext:
    """What the functions of one code class share while they are lowered.

    Attributes:
        architecture: `wse2` or `wse3`.
        fp16_format: `f16`, `bf16` or `cb16`.
        machine: What instructions cost that are not in the table of costs.
        windows: By function.
        sites: Records of `SITE`.
        calls: Instructions that call a function, and which: their targets are set at the end.
    """

    source: CodeClass
    architecture: str
    fp16_format: str
    machine: Machine
    code: Emitter = field(default_factory=Emitter)
    frame: Frame = field(default_factory=Frame)
    shapes: ShapeTable = field(default_factory=ShapeTable)
    windows: list[Window] = field(default_factory=list)
    sites: list[np.void] = field(default_factory=list)
    calls: list[tuple[int, int]] = field(default_factory=list)
    is_checked: bool = False
    """Whether accesses beyond an array are found."""
    arrays: dict[int, str] = field(default_factory=dict)
    """The array of each instruction that checks an index."""
    same_cycle: Callable[[int, int], bool] = lambda _caller, _callee: False
    """Whether two functions can call each other in a circle."""

    def constant(self, value: Constant) -> int:
        """Return the slot of a number."""
        if value.type.is_float:
            return self.frame.constant(
                encode_float(float(value.value), value.type.bits, self.fp16_format)
            )
        return self.frame.constant(int(value.value))


@dataclass(kw_only=True)
class Body:
    """One function while it is lowered."""

    context: ClassContext
    function: Function | None
    number: int
    window: Window
    in_dsrs: set[tuple[int, int]] = field(default_factory=set)
    """Descriptors that an operation of this block has loaded: place among its operands, slot."""

    @property
    def code(self) -> Emitter:
        """The instructions of the class."""
        return self.context.code

    @property
    def frame(self) -> Frame:
        """The slots of the class."""
        return self.context.frame

    @property
    def name(self) -> str:
        """The function's name, for messages."""
        return "start" if self.function is None else self.function.name

    def slot(self, register: Register) -> int:
        """Return the slot of a register."""
        return self.window.first + register.index

    def type_of(self, register: Register) -> MachineType:
        """Return the type of a register."""
        if self.function is None:
            raise TypeError("Code that runs at start has no registers.")
        return self.function.registers[register.index]

    def operand(self, value: object) -> int:
        """Return the slot that holds an operand's value."""
        match value:
            case Register():
                return self.slot(value)
            case Constant():
                return self.context.constant(value)
            case Address():
                return self.frame.constant(value.address)
            case FunctionAddress():
                return self.frame.constant(value.function + 1)
            case DescriptorConstant():
                return self.frame.constant(encode_descriptor(value.descriptor, self.context.shapes))
            case Place():
                return self.operand(value.address)
            case _:
                raise TypeError(f"{value!r} is no operand.")

    def address(self, value: object) -> tuple[int, int]:
        """Return a slot and a number to add to it: together they are an address."""
        if isinstance(value, Address):
            return self.frame.constant(0), value.address
        return self.operand(value), 0
