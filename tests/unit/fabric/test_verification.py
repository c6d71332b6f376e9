"""Programs are checked before the kernel gets them: every number points at something."""

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any, get_type_hints

import pytest

from appliance.core.errors import UserError
from appliance.csl.program import (
    Address,
    Block,
    Blocked,
    Call,
    CallIndirect,
    CircularDescriptor,
    DescriptorConstant,
    DescriptorType,
    DsdMake,
    DsdOperation,
    DsdUpdate,
    Export,
    FabricInDescriptor,
    FabricOutDescriptor,
    Field,
    Fifo,
    FunctionAddress,
    HostStream,
    InitialService,
    Instruction,
    Intrinsic,
    Load,
    MachineType,
    Map,
    MapInput,
    MemoryDescriptor,
    MemorySymbol,
    Move,
    OperationSettings,
    Position,
    Program,
    ProgramFormatError,
    QueueInitialisation,
    Register,
    Return,
    RpcSymbol,
    Store,
    Switch,
    TargetKind,
    TaskBinding,
    TaskKind,
    Unary,
    decode,
    encode,
)
from appliance.csl.program.operands import DsdOperand
from appliance.fabric.commands import Launch
from appliance.fabric.errors import FabricError
from appliance.fabric.host_interface import Simulator
from appliance.fabric.verification import check_program
from appliance.fabric.verification.rules import RULES, Below, Between, OneOf
from tests.fuzz.programs import answer, seeds
from tests.support.fabric_programs import (
    AT,
    I16,
    U16,
    ClassBuilder,
    blocks,
    number,
    program,
    straight,
)


def _give_field(built: ClassBuilder, field: Field) -> None:
    """Say that the first variable is a struct with a field."""
    built.variables[0] = dataclasses.replace(built.variables[0], shape=(), fields=(field,))


def _rest() -> Program:
    """Return a program with the records that no other right program holds."""
    built = ClassBuilder()
    address = built.array("data", U16, 8)
    _give_field(built, Field(".a", 12, 4, 0, U16, (2,)))
    ring = DescriptorConstant(CircularDescriptor(address, 2, 0, 4, 4))
    by_color = DescriptorConstant(FabricInDescriptor(None, 3, 4))
    dsd, value = Register(0), Register(1)
    body = (
        DsdOperation(None, "mov16", (ring, number(U16, 1)), OperationSettings(), AT),
        DsdMake(dsd, DescriptorType.FABRIC_IN, by_color, None, None, (), (), None, AT),
        DsdUpdate(dsd, dsd, DescriptorType.FABRIC_IN, "length", number(U16, 2), 2, AT),
        Unary(value, "neg", I16, number(I16, 3), AT),
        Move(value, FunctionAddress(0), AT),
    )
    end = Switch(value, I16, ((1, 1),), 1, AT)
    parts = (Block(body, end), Block((), Return(None, AT)))
    kinds = (DescriptorType.FABRIC_IN, I16)
    built.function(blocks("main", kinds, parts), exported=True)
    built.tasks.append(TaskBinding(TaskKind.LOCAL, 9, 0, (16,), AT))
    built.queues.append(QueueInitialisation(False, 2, 3, "default", 1, False, AT))
    built.exports.append(Export("stream", None, None, 4))
    built.extra["symbols"] = (MemorySymbol("data", 0),)
    built.extra["blocked"] = (Blocked(TargetKind.LOCAL_TASK, 9),)
    built.extra["initial_services"] = (InitialService("config_write", (0x7F20, 1)),)
    made = program((built.build(),))
    stream = RpcSymbol(9, "Stream", "stream", "u32", False, (), 4, AT)
    streams = (HostStream("h2d", 1, 4),)
    return dataclasses.replace(made, symbols=(*made.symbols, stream), streams=streams)


SEEDS = [*(decode(data) for data in seeds()), _rest()]


def test_right_programs_are_accepted_and_run() -> None:
    for each in SEEDS:
        check_program(each)
    assert answer(encode(SEEDS[-1])) == "ran"


def test_every_field_of_a_program_has_a_rule() -> None:
    assert _fields_without_rule() == []


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        pytest.param(kind, name, id=f"{kind.__name__}.{name}")
        for kind, rules in RULES.items()
        for name, rule in rules.items()
        if isinstance(rule, Between | Below | OneOf)
    ],
)
def test_a_number_or_word_beyond_its_rule_is_refused_and_named(kind: type, name: str) -> None:
    right = next(each for each in SEEDS if _holds(each, kind, name))
    with pytest.raises(UserError, match=rf"a {kind.__name__}.* has {name} "):
        check_program(_broken(right, kind, name))


@pytest.mark.parametrize(
    "field", [Field(".a", 14, 4, 0, U16, (2,)), Field(".a", 0, 4, 0, U16, (3,))]
)
def test_a_field_lies_within_the_struct_and_has_the_bytes_of_its_numbers(field: Field) -> None:
    built = ClassBuilder()
    built.array("data", U16, 8)
    _give_field(built, field)
    built.function(straight("main", (), ()), exported=True)
    with pytest.raises(UserError, match=r"the field '\.a' of 'data' beyond an element"):
        check_program(program((built.build(),)))


def test_a_file_that_says_too_much_is_refused_before_it_takes_the_memory() -> None:
    grid = dataclasses.replace(SEEDS[0].grid, code=bytes(1 << 26))
    with pytest.raises(ProgramFormatError, match="too large"):
        decode(encode(dataclasses.replace(SEEDS[0], grid=grid)))


# --- what only a running program shows


def _fails(*body: Instruction, registers: tuple[MachineType, ...] = (), **parts: object) -> str:
    """Run a function and return the error that ends it."""
    built = ClassBuilder()
    built.array("data", U16, 8)
    built.queues.extend(parts.pop("queues", ()))
    built.extra.update(parts)
    built.function(straight("main", registers, body), exported=True)
    simulator = Simulator(program((built.build(),)))
    with pytest.raises(FabricError) as caught:
        _run(simulator)
    return str(caught.value)


def _run(simulator: Simulator) -> None:
    simulator.submit(Launch("main"))
    simulator.drain()


def _operation(*operands: DsdOperand) -> DsdOperation:
    return DsdOperation(None, "mov16", operands, OperationSettings(), AT)


def _dsd(bits: int) -> tuple[Instruction, ...]:
    """Write a DSD of some bits to memory, and load it into register 0."""
    at, words = (
        Address(0x100, "data"),
        [number(U16, bits >> place & 0xFFFF) for place in range(0, 64, 16)],
    )
    stores = [Store(at, 2 * place, word, U16, AT) for place, word in enumerate(words)]
    return (*stores, Load(Register(0), at, 0, AT))


ONE, MEM = number(U16, 1), (DescriptorType.MEM1D,)


@pytest.mark.parametrize(
    ("bits", "said"),
    [
        (0, "no DSD"),
        (6 << 60, "no DSD"),
        (0xA << 60, "no DSD"),
        (2 << 60 | 77 << 16, "no DSD"),
        (3 << 60 | 0xFFFF << 16, "no DSD"),
        (4 << 60 | 1 << 16, "cannot be written"),
        (5 << 60 | 9 | 1 << 16, "has no color"),
        (1 << 60 | 0xFFFE | 4 << 16 | 2 << 32, "beyond this PE's data"),
    ],
    ids=lambda value: hex(value) if isinstance(value, int) else "",
)
def test_what_memory_says_is_a_dsd_only_if_it_is_one(bits: int, said: str) -> None:
    assert said in _fails(*_dsd(bits), _operation(Register(0), ONE), registers=MEM)


def test_a_map_takes_no_queue_and_no_fifo_that_is_not_there() -> None:
    entry = MapInput(Register(0), U16, True)
    over = Map(0, (entry,), None, None, False, OperationSettings(), AT)
    taker = straight("taker", (U16,), (), parameters=1)
    built = ClassBuilder()
    built.array("data", U16, 8)
    built.function(taker)
    built.function(straight("main", MEM, (*_dsd(4 << 60 | 12 | 1 << 16), over)), exported=True)
    simulator = Simulator(program((built.build(),)))
    simulator.submit(Launch("main"))
    with pytest.raises(FabricError, match="has no color"):
        simulator.drain()


def test_an_operation_over_memory_alone_comes_to_an_end() -> None:
    ring = DescriptorConstant(CircularDescriptor(0x100, 2, 0, 0x7FFF, 4))
    assert "has no end" in _fails(_operation(ring, ONE))


@pytest.mark.parametrize("name", ["fifo_set_read_length", "fifo_set_write_length"])
def test_a_fifo_whose_length_is_set_is_there(name: str) -> None:
    fifo = Fifo("f", 0x100, 4, 2, None, None, "suspend", "suspend", "default", AT)
    call = Intrinsic(None, name, (number(U16, 1), number(U16, 500)), AT)
    assert "there is no FIFO 1" in _fails(call, fifos=(fifo,))


def test_a_pointer_calls_only_functions_of_as_many_parameters() -> None:
    call = CallIndirect(None, FunctionAddress(0), (ONE,) * 9, (U16,) * 9, None, AT)
    assert "points at no function" in _fails(call)


def test_functions_that_call_each_other_through_pointers_leave_no_table() -> None:
    """`a` calls `b`, which is known to call `a`: `a` is saved; through pointers nobody is."""
    pointer = Load(Register(0), Address(0x100, "data"), 0, AT)
    through = CallIndirect(None, Register(0), (), (), None, AT)
    built = ClassBuilder()
    built.array("data", U16, 8, b"\1\0")
    built.function(straight("a", (U16,), (Call(None, 1, (), AT), pointer, through)))
    built.function(straight("b", (U16,), (pointer, through, Call(None, 0, (), AT))))
    built.function(straight("main", (), (Call(None, 0, (), AT),)), exported=True)
    simulator = Simulator(program((built.build(),)))
    ticket = simulator.submit(Launch("main"))
    for _ in range(3):
        with contextlib.suppress(FabricError):
            simulator.is_done(ticket)


def test_a_zeroed_source_beyond_memory_is_not_written() -> None:
    out = FabricOutDescriptor(2, 4, 1, zero_first_source=True)
    beyond = DescriptorConstant(MemoryDescriptor(0xFF00, 2, 0, (1,), (1,)))
    send = _operation(DescriptorConstant(out), beyond)
    queue = QueueInitialisation(True, 2, 4, "default", None, False, AT)
    assert "beyond this PE's data" in _fails(send, queues=(queue,))


# --- helpers that walk over programs


def _records(value: Any) -> Iterator[Any]:
    if isinstance(value, tuple) and not isinstance(value, Position):
        for each in value:
            yield from _records(each)
    elif isinstance(value, Position):
        yield value
    elif dataclasses.is_dataclass(value):
        yield value
        for field in dataclasses.fields(value):
            yield from _records(getattr(value, field.name))


def _is_set(value: Any) -> bool:
    return value is not None and value != () and not isinstance(value, bytes)


def _holds(value: Program, kind: type, name: str) -> bool:
    return any(type(each) is kind and _is_set(getattr(each, name)) for each in _records(value))


def _worse(value: Any) -> Any:
    if isinstance(value, tuple):
        return (_worse(value[0]), *value[1:])
    return "no such word" if isinstance(value, str) else 1 << 40


def _broken(value: Any, kind: type, name: str, done: list[bool] | None = None) -> Any:
    """Return a program whose first record of a kind has something else in a field."""
    done = [False] if done is None else done
    if isinstance(value, Position):
        if kind is not Position or done[0]:
            return value
        done[0] = True
        return value._replace(**{name: 1 << 40})
    if isinstance(value, tuple):
        return tuple([_broken(each, kind, name, done) for each in value])
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    if type(value) is kind and _is_set(getattr(value, name)) and not done[0]:
        done[0] = True
        return dataclasses.replace(value, **{name: _worse(getattr(value, name))})
    changes = {
        field.name: _broken(getattr(value, field.name), kind, name, done)
        for field in dataclasses.fields(value)
    }
    return dataclasses.replace(value, **changes)


def _fields_without_rule() -> list[str]:
    found: list[str] = []
    seen: set[type] = set()
    todo: list[Any] = [Program, Position]
    while todo:
        kind = todo.pop()
        if kind in seen:
            continue
        seen.add(kind)
        for name, hint in get_type_hints(kind).items():
            records, plain = _parts(hint)
            todo.extend(records)
            if plain and name not in RULES.get(kind, {}):
                found.append(f"{kind.__name__}.{name}")
    return found


def _parts(hint: Any) -> tuple[list[type], bool]:
    """Return the records in an annotation, and whether it holds numbers, texts or bytes."""
    arguments = getattr(hint, "__args__", ())
    if hint is Position or dataclasses.is_dataclass(hint):
        return [hint], False
    if not arguments:
        return [], hint in (int, float, str, bytes)
    parts = [_parts(each) for each in arguments if each is not Ellipsis]
    return [kind for kinds, _ in parts for kind in kinds], any(plain for _, plain in parts)
