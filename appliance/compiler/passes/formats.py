"""Pass: decide what carries the 16-bit floating-point values of a program.

The text types all of them `f16`; the function attribute `cs.fp16_type` says which format is meant.
"""

import re
from collections.abc import Container
from dataclasses import replace

from appliance.compiler.passes.rewriting import Names
from appliance.core.errors import ProgramError
from appliance.core.ir.graph import Graph, Node
from appliance.core.ir.tensors import Constant, DType, TensorType
from appliance.core.plans.plan import Plan, Precision

_COPY = re.compile(r"(?P<of>.+?)(\.(partial|sum|whole|padded|share|copy)|@\w+)(\.\d+)?")
"""Names of the parts and copies that passes after this one make of a value."""
_FORMATS = {"float16": DType.F16, "bfloat16": DType.BF16, "cbfloat16": DType.CB16}


def carry_formats(graph: Graph, precision: Precision) -> Graph:
    """Give every 16-bit value the element type it is computed in.

    Args:
        graph: A graph in normal form, typed as written.
        precision: `F32` turns every 16-bit type into float32; `EXACT` into the named format.

    Returns:
        The graph with new types. Casts that no longer change anything are still there.

    Raises:
        ProgramError: The program names a format that does not exist.
    """
    name = graph.attributes.get("cs.fp16_type", "float16")
    named = _FORMATS.get(str(name))
    if named is None:
        raise ProgramError(
            f"The program names the 16-bit format {name!r}, which is none of "
            f"{', '.join(_FORMATS)}.",
            hint="Set one of them with cstorch.amp.set_half_dtype.",
        )
    if precision is Precision.F32:
        carried = {DType.F16: DType.F32, DType.BF16: DType.F32}
    else:
        carried = {DType.F16: named}
    return _Carrier(graph, carried).run()


def narrow_values(graph: Graph, plan: Plan) -> frozenset[str]:
    """Return the values of a plan that are 16 bits wide in the program, though carried as float32.

    A value that the program writes in 32 bits and reads in 16 alone counts too: its cast is gone,
    and a wafer would hold the narrow copy. Parts and copies that later passes make of a value are
    as narrow as that; what they make of operations written as one is computed in 32 bits.

    Args:
        graph: The program in normal form, typed as written.
        plan: What has become of it.
    """
    types = graph.types()
    narrow = {name for name, type_ in types.items() if type_.dtype.is_half}
    uses: dict[str, set[bool]] = {}
    for node in graph.nodes:
        narrows = node.op == "Cast" and node.types[0].dtype.is_half
        for name in node.operands:
            uses.setdefault(name, set()).add(narrows)
    floats = (name for name, type_ in types.items() if type_.dtype is DType.F32)
    narrow.update(name for name in floats if uses.get(name) == {True})
    return frozenset(
        name
        for name, type_ in plan.types.items()
        if type_.dtype is DType.F32 and _origin(name, types) in narrow
    )


def _origin(name: str, known: Container[str]) -> str:
    while name not in known and (found := _COPY.fullmatch(name)):
        name = found["of"]
    return name


class _Carrier:
    """One walk that replaces element types."""

    def __init__(self, graph: Graph, carried: dict[DType, DType]) -> None:
        self._graph = graph
        self._carried = carried
        self._names = Names(graph.types())

    def run(self) -> Graph:
        graph = self._graph
        return replace(
            graph,
            arguments=tuple(replace(arg, type=self._type(arg.type)) for arg in graph.arguments),
            nodes=tuple(new for node in graph.nodes for new in self._nodes(node)),
        )

    def _type(self, type_: TensorType) -> TensorType:
        carried = self._carried.get(type_.dtype)
        return type_ if carried is None else TensorType(type_.shape, carried)

    def _nodes(self, node: Node) -> list[Node]:
        types = tuple(self._type(type_) for type_ in node.types)
        if types == node.types:
            return [node]
        value = node.attributes.get("value")
        if node.op != "Const" or not isinstance(value, Constant):
            return [replace(node, types=types)]
        if types[0].dtype is DType.F32:
            constant = Constant(types[0], value.data)
            return [replace(node, types=types, attributes={"value": constant})]
        return self._rounded(node, value, types[0])

    def _rounded(self, node: Node, value: Constant, type_: TensorType) -> list[Node]:
        """Leave rounding to the kernels: a float32 constant and a cast, computed once."""
        wide = TensorType(type_.shape, DType.F32)
        name = self._names.fresh(f"{node.results[0]}.f32")
        constant = replace(
            node,
            results=(name,),
            types=(wide,),
            attributes={"value": Constant(wide, value.data)},
        )
        cast = replace(node, op="Cast", operands=(name,), types=(type_,), attributes={})
        return [constant, cast]
