"""Tasks that take turns (`@bind_rotating_tasks`): code that counts starts and calls one of two."""

from appliance.csl.program.instructions import Call, Return
from appliance.csl.program.operands import Constant, Operand
from appliance.csl.program.types import POINTER, Position
from appliance.csl.semantics.context.builder import FunctionBuilder
from appliance.csl.semantics.context.frames import FunctionValue
from appliance.csl.semantics.results.tile import TileWorld
from appliance.csl.semantics.values import types as t
from appliance.csl.semantics.values.types import Type
from appliance.csl.semantics.values.variables import GlobalVariable, Pointer


def rotation(
    world: TileWorld,
    main: FunctionValue,
    types: list[Type],
    numbers: tuple[int, int],
    limit: int,
    position: Position,
) -> int:
    """The number of a function that calls the main task, or after `limit` calls the alternate one.

    Args:
        world: Where the code goes.
        main: The main task.
        types: Types of its parameters.
        numbers: Numbers of the main and of the alternate function; that one has no parameters.
        limit: Starts of the main task after each of which the alternate one has a turn.
        position: The call of the builtin.
    """
    name = world.unique_name(f"{main.module.qualified(main.node.name)}.rotation")
    counter = GlobalVariable(
        world.place, f"{name}.starts", t.U16, is_const=False, position=position
    )
    builder = FunctionBuilder(name, position)
    arguments: list[Operand] = []
    for type_ in types:
        assert type_.machine is not None, "a wavelet brings numbers"
        arguments.append(builder.register(type_.machine))
    address = Pointer(counter, 0).address
    starts = builder.load(POINTER, address, 0, position)
    is_over = builder.binary("ge", POINTER, starts, Constant(POINTER, limit), position)
    alternate, usual = builder.new_block(), builder.new_block()
    builder.branch(is_over, alternate, usual, position)
    builder.go_to(alternate)
    builder.store(address, 0, Constant(POINTER, 0), POINTER, position)
    _call(builder, numbers[1], (), position)
    builder.go_to(usual)
    following = builder.binary("add", POINTER, starts, Constant(POINTER, 1), position)
    builder.store(address, 0, following, POINTER, position)
    _call(builder, numbers[0], tuple(arguments), position)
    return world.add_emitted(main, types, builder)


def _call(
    builder: FunctionBuilder, number: int, arguments: tuple[Operand, ...], position: Position
) -> None:
    builder.emit(Call(None, number, arguments, position))
    builder.terminate(Return(None, position))
