"""The program file: what is written is read back, and nothing else is accepted."""

import json
import zlib

import pytest

from appliance.csl.program import (
    BOOL,
    F16,
    F32,
    NO_CODE,
    U16,
    Activate,
    Address,
    Binary,
    Block,
    Branch,
    CodeClass,
    ColorConfiguration,
    Completion,
    Constant,
    DescriptorConstant,
    DescriptorType,
    DsdOperation,
    Export,
    FabricInDescriptor,
    Field,
    Filter,
    Function,
    Grid,
    InitialService,
    MemoryDescriptor,
    Move,
    OperationSettings,
    Place,
    Position,
    Program,
    ProgramFormatError,
    Register,
    Return,
    RoutingClass,
    RpcSymbol,
    Target,
    TargetKind,
    TaskBinding,
    TaskKind,
    Variable,
    decode,
    encode,
)

AT = Position(0, 3, 7)


def _function() -> Function:
    target = Target(kind=TargetKind.LOCAL_TASK, id=Constant(U16, 9))
    memory = MemoryDescriptor(
        base=64, element_bytes=4, offset=1, extents=(8,), strides=(2,), symbol="x"
    )
    fabric = FabricInDescriptor(queue=2, color=None, extent=8)
    operation = DsdOperation(
        dest=Register(1),
        op="fadds",
        operands=(
            Place(Address(32, "sum")),
            DescriptorConstant(memory),
            DescriptorConstant(fabric),
        ),
        settings=OperationSettings(
            asynchronous=True, completion=Completion.ACTIVATE, target=target, index=Register(0)
        ),
        position=AT,
    )
    blocks = (
        Block(
            (
                Binary(Register(1), "lt", U16, Register(0), Constant(U16, 7), AT),
                Move(Register(2), Constant(F32, float("inf")), AT),
                operation,
            ),
            Branch(Register(1), 1, 1, AT),
        ),
        Block((Activate(target, AT),), Return(None, AT)),
    )
    return Function(
        name="main.step",
        num_parameters=1,
        result=None,
        registers=(U16, BOOL, F32, DescriptorType.MEM1D),
        register_names=("n", "", "", "d"),
        blocks=blocks,
        may_wait=True,
        position=AT,
    )


def _class(function: Function, file: str) -> CodeClass:
    return CodeClass(
        file=file,
        parameters="{}",
        functions=(function,),
        variables=(
            Variable(
                name="main.x",
                address=64,
                num_bytes=64,
                alignment=4,
                initial=b"\x00\x01\xff",
                descriptors=((8, MemoryDescriptor(64, 4, 0, (2, 3), (3, 1))),),
                element=F16,
                shape=(32,),
                mutable=True,
                position=AT,
                fields=(Field(".a", 4, 8, 3, F16, (2,)),),
            ),
        ),
        tasks=(TaskBinding(TaskKind.DATA, 4, 0, (16,), AT),),
        active=(),
        blocked=(),
        unblocked=(),
        queues=(),
        fifos=(),
        dsr_loads=(),
        handlers=(),
        exports=(Export("x", 64, None),),
        symbols=(),
        initial_services=(InitialService("config_write", (0x100, 7)),),
        memory_end=128,
    )


def _program() -> Program:
    function = _function()
    color = ColorConfiguration(color=3, rx=16, tx=2, filter=Filter("range", max_index=7))
    return Program(
        architecture="wse3",
        dialect="2.10",
        fabric=(9, 4),
        offsets=(4, 1),
        memcpy=True,
        channels=1,
        width_west_buf=0,
        width_east_buf=0,
        fp16_format="f16",
        parameters=(("n", 4),),
        colors=(("c", 3),),
        files=("pe.csl",),
        grid=Grid(
            width=2,
            height=1,
            code=(0).to_bytes(4, "little") + NO_CODE.to_bytes(4, "little"),
            routing=bytes(8),
        ),
        classes=(_class(function, "a.csl"), _class(function, "b.csl")),
        routings=(RoutingClass((color,)),),
        symbols=(RpcSymbol(0, "Func", "step", "", True, (("n", "u16"),), None, AT),),
        streams=(),
    )


def test_a_program_is_read_back_as_it_was_written() -> None:
    assert decode(encode(_program())) == _program()


def test_equal_programs_give_equal_bytes() -> None:
    assert encode(_program()) == encode(_program())


def test_a_function_that_classes_share_is_one_object_after_reading() -> None:
    first, second = decode(encode(_program())).classes
    assert first.functions[0] is second.functions[0]


def _damaged(change: str, to: str) -> bytes:
    text = zlib.decompress(encode(_program())).decode()
    assert change in text
    return zlib.compress(text.replace(change, to, 1).encode())


@pytest.mark.parametrize(
    ("change", "to"),
    [
        ('"Binary"', '"Nothing"'),
        ('"lt"', "17"),
        ('["Register",0]', '["Register"]'),
        ('"local_task"', '"lunch"'),
        ('"version":2', '"version":1'),
        ('"csl-program"', '"other"'),
        ('["Constant",["Scalar","uint",16],7]', '["Constant",["Scalar","uint",16],[7]]'),
    ],
)
def test_a_damaged_program_is_refused(change: str, to: str) -> None:
    with pytest.raises(ProgramFormatError):
        decode(_damaged(change, to))


@pytest.mark.parametrize("data", [b"", b"junk", zlib.compress(b"[1"), zlib.compress(b"[1]")])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ProgramFormatError):
        decode(data)


def test_a_cut_file_is_refused() -> None:
    with pytest.raises(ProgramFormatError):
        decode(encode(_program())[:-20])


def test_json_names_the_format() -> None:
    document = json.loads(zlib.decompress(encode(_program())))
    assert document["format"] == "csl-program"
