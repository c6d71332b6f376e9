"""A grid that keeps threads busy: sums along its rows."""

import numpy as np

from appliance.csl.program import (
    ColorConfiguration,
    Completion,
    DescriptorConstant,
    Direction,
    DsdOperation,
    FabricInDescriptor,
    FabricOutDescriptor,
    Intrinsic,
    MemoryDescriptor,
    OperationSettings,
    Program,
    TaskKind,
)
from tests.support.fabric_programs import (
    AT,
    F32,
    U16,
    UNBLOCK,
    ClassBuilder,
    local_task,
    number,
    program,
    straight,
)

WEST, EAST, RAMP = Direction.WEST.bit, Direction.EAST.bit, Direction.RAMP.bit


def row_chains(width: int, height: int, count: int) -> Program:
    """Sum ones along every row, from the last column to the first; each PE prints when done."""
    classes, columns = [], []
    for x in range(width):
        builder = ClassBuilder()
        vector = builder.array("v", F32, count, np.ones(count, np.float32).tobytes())
        mine, other = x % 2, 1 - x % 2
        memory = DescriptorConstant(MemoryDescriptor(vector, 4, 0, (count,), (1,)))
        out = DescriptorConstant(FabricOutDescriptor(3, mine, count)) if x else memory
        given = DescriptorConstant(FabricInDescriptor(2, None, count))
        receives = x < width - 1
        done = [
            Intrinsic(None, "print_character", (number(U16, ord(c)),), AT) for c in f"{x % 10}\n"
        ]
        end = builder.function(straight("done", (), (*done, UNBLOCK)))
        builder.task(TaskKind.LOCAL, 9, end)
        settings = OperationSettings(
            asynchronous=True, completion=Completion.ACTIVATE, target=local_task(9)
        )
        operands = (out, memory, given) if receives else (out, memory)
        op = DsdOperation(None, "fadds" if receives else "fmovs", operands, settings, AT)
        builder.function(straight("f", (), (op,)), exported=True)
        builder.queue(2, other)
        classes.append(builder.build())
        entries = [ColorConfiguration(mine, RAMP, WEST)] if x else []
        entries += [ColorConfiguration(other, EAST, RAMP)] if receives else []
        columns.append(tuple(sorted(entries, key=lambda entry: entry.color)))
    return program(
        tuple(classes),
        width=width,
        height=height,
        code=tuple(range(width)) * height,
        routes=tuple(columns) * height,
    )
