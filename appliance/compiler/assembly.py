"""The passes' results put together as a plan."""

from dataclasses import dataclass, replace

from appliance.compiler.passes.batch_sharding import ShardedGraph
from appliance.compiler.passes.partition import Partition
from appliance.compiler.passes.updates import UpdateProgram
from appliance.core.ir.graph import Graph
from appliance.core.ir.tensors import TensorType
from appliance.core.plans.plan import (
    InputTensor,
    Output,
    Plan,
    Precision,
    StateTensor,
    defined_values,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the passes have found.

    Attributes:
        written: The program as imported, whose types are those of the client's wire.
        sharded: The program with its crossings.
        wafer: The wafer's part.
        updates: MemoryX's part.
    """

    written: Graph
    sharded: ShardedGraph
    wafer: Partition
    updates: UpdateProgram


def assemble(parts: Parts, *, key: str, batch_size: int, precision: Precision) -> Plan:
    """Put the parts of a plan together."""
    types = {**parts.sharded.graph.types(), **parts.wafer.types}
    types.update({copy: types[source] for copy, source in parts.updates.copies.items()})
    state, inputs = _arguments(parts)
    plan = Plan(
        key=key,
        batch_size=batch_size,
        precision=precision,
        state=state,
        inputs=inputs,
        outputs=_outputs(parts, types),
        wafer_constants=parts.wafer.constants,
        layer_steps=parts.wafer.steps,
        update_constants=parts.updates.constants,
        updates=parts.updates.updates,
        sharded={},
        types={},
    )
    known = set(defined_values(plan))
    shardings = parts.wafer.shardings
    return replace(
        plan,
        sharded={name: found.axis for name, found in shardings.items() if name in known},
        types={name: type_ for name, type_ in types.items() if name in known},
    )


def _arguments(parts: Parts) -> tuple[tuple[StateTensor, ...], tuple[InputTensor, ...]]:
    state: list[StateTensor] = []
    inputs: list[InputTensor] = []
    arguments = zip(parts.written.arguments, parts.sharded.graph.arguments, strict=True)
    for written, argument in arguments:
        wire_dtype = written.type.dtype
        if argument.resource_name is not None:
            tensor = StateTensor(
                resource_name=argument.resource_name,
                value=argument.name,
                type=argument.type,
                wire_dtype=wire_dtype,
            )
            state.append(tensor)
        elif argument.input_name is not None:
            batch = InputTensor(
                input_name=argument.input_name,
                value=argument.name,
                type=argument.type,
                wire_dtype=wire_dtype,
            )
            inputs.append(batch)
    return tuple(state), tuple(inputs)


def _outputs(parts: Parts, types: dict[str, TensorType]) -> tuple[Output, ...]:
    written_types = parts.written.types()
    results = [
        (result.output_name, written_types[result.value].dtype)
        for result in parts.written.results
        if result.output_name is not None
    ]
    return tuple(
        Output(output_name=name, value=value, type=types[value], wire_dtype=wire_dtype)
        for (name, wire_dtype), value in zip(results, parts.updates.outputs, strict=True)
    )
