"""A lowered code class as plain records."""

from dataclasses import dataclass

import numpy as np

from appliance.fabric.bytecode import NONE_8, NONE_16, NONE_32, VECTOR_OPS, Op, OperandKind
from appliance.fabric.lowering.classes import LoweredClass
from tests.support.fabric_reference.operands import Shape


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction; `cost` counts clock cycles."""

    op: Op
    a: int
    b: int
    c: int
    imm: int
    cost: int


@dataclass(frozen=True, slots=True)
class Settings:
    """How an operation runs. Slots are None where the program says nothing."""

    asynchronous: bool
    completion: int
    target_kind: int
    terminates: bool
    control_action: int
    control_kind: int
    priority: int
    microthread: int | None
    target_slot: int | None
    control_slot: int | None
    index_slot: int | None


@dataclass(frozen=True, slots=True)
class Site:
    """Operands and settings of a DSD operation, of `@load_to_dsr` or of `@map`."""

    number: int
    op: int
    cost: int
    simd: int
    kinds: tuple[OperandKind, ...]
    files: tuple[int, ...]
    slots: tuple[int, ...]
    widths: tuple[int, ...]
    steps: tuple[bool, ...]
    is_signed: tuple[bool, ...]
    dsr: tuple[int, int]
    saves_address: bool
    settings: Settings

    @property
    def name(self) -> str:
        """The operation's name."""
        return VECTOR_OPS[self.op]


@dataclass(frozen=True, slots=True)
class FunctionEntry:
    """Where a function starts, its first parameter and its return address in the frame."""

    start: int
    first: int
    return_slot: int
    num_parameters: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """What PEs of one class share: code, tables, how a PE starts."""

    code: tuple[Instruction, ...]
    sites: tuple[Site, ...]
    shapes: list[Shape]
    functions: tuple[FunctionEntry, ...]
    frame: tuple[int, ...]
    memory: bytes
    fifos: tuple[dict[str, int], ...]
    local_tasks: dict[int, int]
    data_tasks: dict[int, int]
    control_tasks: dict[int, int]
    data_widths: tuple[int, ...]
    control_widths: tuple[int, ...]
    handlers: dict[int, int]
    active: int
    blocked: dict[str, int]
    inputs: tuple[int | None, ...]
    queue_of: dict[int, int]
    outputs: tuple[int | None, ...]
    priorities: tuple[int, ...]
    start: int | None


def read_image(lowered: LoweredClass) -> Image:
    """Return a class as records."""
    tables, header = lowered.tables, lowered.image[0]
    shapes = [
        Shape(
            tuple(int(n) for n in row["extents"][: row["rank"]]),
            tuple(int(n) for n in row["strides"][: row["rank"]]),
            int(row["base"]),
            int(row["wrap"]),
        )
        for row in tables["shapes"]
    ]
    return Image(
        code=tuple(Instruction(Op(row[0]), *row[1:]) for row in tables["code"].tolist()),
        sites=tuple(_site(number, row) for number, row in enumerate(tables["sites"])),
        shapes=shapes,
        functions=tuple(FunctionEntry(*row) for row in tables["functions"].tolist()),
        frame=tuple(tables["frame"].tolist()),
        memory=tables["memory"].tobytes(),
        fifos=tuple(_record(row) for row in tables["fifos"][: int(header["num_fifos"])]),
        local_tasks=_bound(tables["local_tasks"]),
        data_tasks=_bound(tables["data_tasks"]),
        control_tasks=_bound(tables["control_tasks"]),
        data_widths=tuple(tables["data_widths"].tolist()),
        control_widths=tuple(tables["control_widths"].tolist()),
        handlers=_bound(tables["handlers"]),
        active=int(header["active"]),
        blocked={n: int(header[f"blocked_{n}"]) for n in ("local", "data", "color", "queue")},
        inputs=tuple(_or_none(n, NONE_8) for n in header["input_color"]),
        queue_of={c: int(n) for c, n in enumerate(header["queue_of_color"]) if n != NONE_8},
        outputs=tuple(_or_none(n, NONE_8) for n in header["output_color"]),
        priorities=tuple(int(n) for n in header["input_priority"]),
        start=_or_none(header["start"], NONE_32),
    )


def _bound(table: np.ndarray) -> dict[int, int]:
    return {number: int(entry) for number, entry in enumerate(table) if entry != NONE_32}


def _or_none(value: int, none: int) -> int | None:
    return None if int(value) == none else int(value)


def _record(row: np.void) -> dict[str, int]:
    return {name: int(row[name]) for name in row.dtype.names or ()}


def _site(number: int, row: np.void) -> Site:
    operands = row["operands"]
    return Site(
        number=number,
        op=int(row["op"]),
        cost=int(row["cost"]),
        simd=int(row["simd"]),
        kinds=tuple(OperandKind(int(kind)) for kind in operands["kind"]),
        files=tuple(int(file) for file in operands["file"]),
        slots=tuple(int(slot) for slot in operands["slot"]),
        widths=tuple(int(width) for width in row["widths"]),
        steps=tuple(bool(step) for step in row["steps"]),
        is_signed=tuple(bool(sign) for sign in row["is_signed"]),
        dsr=(int(row["file"]), int(row["number"])),
        saves_address=bool(row["save_address"]),
        settings=_settings(row["settings"]),
    )


def _settings(row: np.void) -> Settings:
    return Settings(
        asynchronous=bool(row["asynchronous"]),
        completion=int(row["completion"]),
        target_kind=int(row["target_kind"]),
        terminates=bool(row["control_terminate"]),
        control_action=int(row["control_action"]),
        control_kind=int(row["control_kind"]),
        priority=int(row["priority"]),
        microthread=_or_none(row["microthread"], NONE_8),
        target_slot=_or_none(row["target_slot"], NONE_16),
        control_slot=_or_none(row["control_slot"], NONE_16),
        index_slot=_or_none(row["index_slot"], NONE_16),
    )
