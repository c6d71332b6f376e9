"""Builds small typed programs by hand, for tests of the machine alone."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

from appliance.csl.program import (
    Address,
    Binary,
    Block,
    Branch,
    CodeClass,
    ColorConfiguration,
    Constant,
    Export,
    Function,
    Grid,
    Instruction,
    Intrinsic,
    Jump,
    Load,
    MachineType,
    Position,
    Program,
    QueueInitialisation,
    Register,
    Return,
    RoutingClass,
    RpcSymbol,
    Scalar,
    Store,
    Target,
    TargetKind,
    TaskBinding,
    TaskKind,
    Terminator,
    Variable,
)

AT = Position(0, 1, 1)
I16, I32, U16, U32 = Scalar("int", 16), Scalar("int", 32), Scalar("uint", 16), Scalar("uint", 32)
F16, F32, BOOL = Scalar("float", 16), Scalar("float", 32), Scalar("bool", 1)


def number(kind: Scalar, value: float | int) -> Constant:
    """A constant."""
    return Constant(kind, value)


def local_task(identifier: int) -> Target:
    """A local task as a target."""
    return Target(TargetKind.LOCAL_TASK, number(U16, identifier))


def straight(
    name: str,
    registers: tuple[MachineType, ...],
    instructions: tuple[Instruction, ...],
    end: Terminator | None = None,
    parameters: int = 0,
) -> Function:
    """A function of one block."""
    return blocks(name, registers, (Block(instructions, end or Return(None, AT)),), parameters)


def blocks(
    name: str, registers: tuple[MachineType, ...], body: tuple[Block, ...], parameters: int = 0
) -> Function:
    """A function of several blocks."""
    names = tuple("" for _ in registers)
    return Function(name, parameters, None, registers, names, body, True, AT)


UNBLOCK = Intrinsic(None, "unblock_command_stream", (), AT)


@dataclass
class ClassBuilder:
    """One code class under construction."""

    functions: list[Function] = field(default_factory=list)
    variables: list[Variable] = field(default_factory=list)
    tasks: list[TaskBinding] = field(default_factory=list)
    exports: list[Export] = field(default_factory=list)
    queues: list[QueueInitialisation] = field(default_factory=list)
    end: int = 0x100
    extra: dict[str, object] = field(default_factory=dict)

    def function(self, function: Function, *, exported: bool = False) -> int:
        """Add a function; return its number."""
        self.functions.append(function)
        if exported:
            self.exports.append(Export(function.name, None, len(self.functions) - 1))
        return len(self.functions) - 1

    def array(self, name: str, element: Scalar, count: int, initial: bytes = b"") -> int:
        """Add an array and an exported pointer to it; return the array's address."""
        size = element.num_bytes * count
        address = self._variable(name, size, initial, element, (count,))
        pointer = address.to_bytes(2, "little")
        self.exports.append(Export(name, self._variable(f"{name}_ptr", 2, pointer, U16, ()), None))
        return address

    def _variable(
        self, name: str, size: int, initial: bytes, element: Scalar, shape: tuple[int, ...]
    ) -> int:
        address = self.end
        self.end += size + (-size) % 4
        self.variables.append(
            Variable(name, address, size, 4, initial, (), element, shape, True, AT)
        )
        return address

    def task(self, kind: TaskKind, identifier: int, function: int) -> None:
        """Bind a task."""
        self.tasks.append(TaskBinding(kind, identifier, function, (), AT))

    def queue(self, number_: int, color: int | None, *, output: bool = False) -> None:
        """Initialise a queue."""
        self.queues.append(QueueInitialisation(output, number_, color, "default", None, False, AT))

    def build(self) -> CodeClass:
        """Return the class."""
        parts: dict[str, object] = {
            "active": (),
            "blocked": (),
            "unblocked": (),
            "fifos": (),
            "dsr_loads": (),
            "handlers": (),
            "symbols": (),
            "initial_services": (),
        } | self.extra
        return CodeClass(
            file="pe.csl",
            parameters="",
            functions=tuple(self.functions),
            variables=tuple(self.variables),
            tasks=tuple(self.tasks),
            queues=tuple(self.queues),
            exports=tuple(self.exports),
            memory_end=self.end,
            **parts,  # type: ignore[arg-type]  # a test names fields as they are
        )


def _exported_type(classes: Sequence[CodeClass], name: str) -> str:
    """Return the type of a symbol, as the layout would have exported it."""
    for variable in itertools.chain.from_iterable(each.variables for each in classes):
        if variable.name == name:
            return f"*{variable.element}"
    return ""


def program(
    classes: tuple[CodeClass, ...],
    *,
    width: int = 1,
    height: int = 1,
    code: tuple[int, ...] | None = None,
    routes: tuple[tuple[ColorConfiguration, ...], ...] = (),
    architecture: str = "wse2",
    fp16_format: str = "f16",
) -> Program:
    """Return a program on a grid; every PE has class 0 and the routes of its place by default."""
    count = width * height
    codes = code or (0,) * count
    routings = routes or ((),) * count
    names = sorted({(e.name, e.function is not None) for c in classes for e in c.exports})
    symbols = tuple(
        RpcSymbol(
            *(n, "Func" if is_function else "Var", name, _exported_type(classes, name)),
            *(False, (), None, AT),
        )
        for n, (name, is_function) in enumerate(names)
    )
    return Program(
        architecture=architecture,
        dialect="2.10",
        fabric=(width + 7, height + 2),
        offsets=(4, 1),
        memcpy=True,
        channels=1,
        width_west_buf=0,
        width_east_buf=0,
        fp16_format=fp16_format,
        parameters=(),
        colors=(),
        files=("pe.csl",),
        grid=Grid(
            width,
            height,
            b"".join(n.to_bytes(4, "little") for n in codes),
            b"".join(n.to_bytes(4, "little") for n in range(count)),
        ),
        classes=classes,
        routings=tuple(RoutingClass(colors) for colors in routings),
        symbols=symbols,
        streams=(),
    )


def register(index: int) -> Register:
    """A register."""
    return Register(index)


def scalar_loop(address: int) -> Function:
    """A loop that adds to an f32 in memory, as often as its parameter says."""
    count, value, test = Register(0), Register(1), Register(2)
    at = Address(address, "v")
    head = Block((Binary(test, "gt", U16, count, number(U16, 0), AT),), Branch(test, 1, 2, AT))
    body = Block(
        (
            Load(value, at, 0, AT),
            Binary(value, "add", F32, value, number(F32, 1.5), AT),
            Store(at, 0, value, F32, AT),
            Binary(count, "sub", U16, count, number(U16, 1), AT),
        ),
        Jump(0, AT),
    )
    end = Block((), Return(None, AT))
    return blocks("work", (U16, F32, BOOL), (head, body, end), 1)


def adder() -> Function:
    """The sum of two numbers."""
    total = Register(2)
    add = Binary(total, "add", I16, Register(0), Register(1), AT)
    return straight("adder", (I16, I16, I16), (add,), Return(total, AT), parameters=2)
