"""Loads that are streamed in two bytes a value, as nobody reads more of them.

A program in 16-bit precision keeps its weights in float32 and casts each to its 16-bit format
wherever it is used. Where every node of the wafer part that reads a load is such a cast, all to one
format, MemoryX casts instead, once, and the systems are sent the result. Rounding is the same
wherever it is done, so no bit changes. A load that any node reads in float32 is sent in float32. A
load that has a 16-bit type already is sent in it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from appliance.core.ir.graph import Node
from appliance.core.ir.tensors import DType, TensorType
from appliance.core.plans.generation import loop_node
from appliance.core.plans.plan import LayerStep, Plan


def packed_loads(plan: Plan) -> Mapping[str, DType]:
    """Return the format of each load that can be sent in two bytes a value, by name.

    Loads of one element are not worth it. A program with a loop over positions has none: its
    systems keep what they load.

    Args:
        plan: A plan whose wafer part has types.
    """
    if loop_node(plan) is not None:
        return {}
    formats: dict[str, set[DType | None]] = {}
    cast: dict[str, str] = {}
    for step in plan.layer_steps:
        for node, name in _reads_of_loads(step):
            formats.setdefault(name, set()).add(_format_of_cast(node))
            cast.update(dict.fromkeys(node.results, name))
    for name in _leaving(plan, cast):
        formats[cast[name]].add(None)
    found: dict[str, DType] = {}
    for name, wanted in formats.items():
        type_ = plan.types[name]
        dtype, *others = {type_.dtype} if type_.dtype.is_half else wanted
        if dtype is not None and not others and _may_be_packed(type_):
            found[name] = dtype
    return found


def streamed_type(plan: Plan, name: str) -> TensorType:
    """Return shape and element type of a load as it is sent; what is packed is integers of 16 bits.

    What these mean says `plan.packed`; see `appliance.numerics.packed_values`.
    """
    type_ = plan.types[name]
    return TensorType(type_.shape, DType.I16) if name in plan.packed else type_


def without_casts(plan: Plan) -> Plan:
    """Return a plan as a system computes it, to which packed loads come in their 16-bit types.

    Casts of them are gone from its layer steps, and whoever read a cast reads the load.
    """
    if not plan.packed:
        return plan
    types = {
        name: TensorType(type_.shape, plan.packed.get(name, type_.dtype))
        for name, type_ in plan.types.items()
    }
    steps = tuple(_without_casts(step, plan.packed) for step in plan.layer_steps)
    return replace(plan, layer_steps=steps, types=types)


def _reads_of_loads(step: LayerStep) -> Iterator[tuple[Node, str]]:
    loads = {*step.loads}
    for node in step.nodes:
        for name in dict.fromkeys(node.operands):
            if name in loads:
                yield node, name


def _format_of_cast(node: Node) -> DType | None:
    target = node.types[0].dtype
    return target if node.op == "Cast" and target.is_half else None


def _leaving(plan: Plan, names: Mapping[str, str]) -> set[str]:
    """Return which of the values are sent, or read in another layer step than the one they are of.

    Such a value is a result like any other, and stays on the wafer when its load is dropped.
    """
    found: set[str] = set()
    for step in plan.layer_steps:
        own = {result for node in step.nodes for result in node.results}
        read = {name for node in step.nodes for name in node.operands} - own
        found |= names.keys() & (read | {sum_.partial for sum_ in step.sums})
    return found


def _may_be_packed(type_: TensorType) -> bool:
    return (type_.dtype is DType.F32 or type_.dtype.is_half) and type_.num_elements > 1


def _without_casts(step: LayerStep, packed: Mapping[str, DType]) -> LayerStep:
    read_as: dict[str, str] = {}
    nodes: list[Node] = []
    for node in step.nodes:
        if node.op == "Cast" and packed.get(node.operands[0]) is node.types[0].dtype:
            read_as[node.results[0]] = node.operands[0]
        else:
            operands = tuple(read_as.get(name, name) for name in node.operands)
            nodes.append(replace(node, operands=operands))
    return replace(step, nodes=tuple(nodes))
