"""The compiler's intermediate representation: a straight line of frozen nodes over named values.

A `Graph` is one whole training (or evaluation) step as the client traced it: forward, backward,
loss scale, clipping, schedule and optimizer. There is no control flow; every value is assigned
once; shapes are static and speak of the *global* batch. The set of operations is that of the
program text, named without the dialect's prefix (`MatMul`, `LayerNormGrad`), plus our own, which
begin with `wsc.`.

Passes take a `Graph` and return a new one; `verify` holds between any two of them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from appliance.core.errors import InternalError
from appliance.core.ir.tensors import Constant, TensorType

Attribute = bool | int | float | str | tuple[int, ...] | Constant
"""Value of a node attribute; dense integer vectors are tuples, other dense tensors are
constants."""


class Direction(StrEnum):
    """Whether a node belongs to a module's forward or backward computation."""

    FORWARD = "fwd"
    BACKWARD = "bwd"


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One entry of the Python call stack that created a node."""

    function: str
    file: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """Where in the user's model a node comes from.

    Attributes:
        module: Path of the module, as in `blocks.1.fc2`; empty outside of any module.
        direction: Forward or backward; None outside of any module.
        operation: The framework operation, as in `aten::addmm`; empty when unknown.
        frames: Python call stack, innermost first.
    """

    module: str = ""
    direction: Direction | None = None
    operation: str = ""
    frames: tuple[Frame, ...] = ()

    def user_frame(self) -> Frame | None:
        """Return the innermost frame in the user's own code: outside torch and the client."""
        for frame in self.frames:
            if not frame.file.startswith(("torch/", "cerebras/")):
                return frame
        return None

    def __str__(self) -> str:
        where = f"{self.module}.{self.direction.value}" if self.direction else self.module
        frame = self.user_frame()
        at = f" ({frame.file}:{frame.line})" if frame else ""
        return f"{where or 'the step function'}{at}"


UNKNOWN_LOCATION = Location()


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One operation.

    Attributes:
        op: Name of the operation.
        operands: Names of the values it reads, in the operation's order.
        results: Names of the values it defines.
        types: Types of the results, in the same order.
        attributes: Compile-time parameters.
        location: Where it comes from; no part of equality.
    """

    op: str
    operands: tuple[str, ...]
    results: tuple[str, ...]
    types: tuple[TensorType, ...]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    location: Location = field(default=UNKNOWN_LOCATION, compare=False)


def needed_nodes(nodes: Sequence[Node], values: Iterable[str]) -> tuple[Node, ...]:
    """Return the nodes that values depend on, in their order.

    Args:
        nodes: Nodes, each after those whose results it reads.
        values: Names of the values.
    """
    needed = set(values)
    found: list[Node] = []
    for node in reversed(nodes):
        if not needed.isdisjoint(node.results):
            needed.update(node.operands)
            found.append(node)
    return tuple(reversed(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """A value the graph receives: a state tensor or a batch tensor.

    Attributes:
        name: Name of the value.
        resource_name: For state, the client's name, as in `state.model.fc1.weight`.
        aliased_result: For state, index of the result that is its new value; None if never written.
        input_name: For a batch tensor, the client's name, as in `input_0`.
    """

    name: str
    type: TensorType
    resource_name: str | None = None
    aliased_result: int | None = None
    input_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A value the graph returns: the new value of a state tensor, or an output for the user.

    Attributes:
        value: Name of the value.
        output_name: For an output, the client's name, as in `output_loss`.
    """

    value: str
    output_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """A whole step as one straight-line function.

    Attributes:
        arguments: What comes in.
        nodes: Operations in an order in which every operand is defined before it is read.
        results: What goes out.
        attributes: Function attributes (`cs.fp16_type`, ...).
    """

    arguments: tuple[Argument, ...]
    nodes: tuple[Node, ...]
    results: tuple[Result, ...]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)

    def types(self) -> dict[str, TensorType]:
        """Return the type of every value, by name."""
        table = {argument.name: argument.type for argument in self.arguments}
        for node in self.nodes:
            table.update(zip(node.results, node.types, strict=True))
        return table

    def definitions(self) -> Iterator[tuple[str, Node]]:
        """Yield each node result with the node that defines it, in order."""
        for node in self.nodes:
            for name in node.results:
                yield name, node


def verify(graph: Graph) -> None:
    """Check the rules every graph obeys: single assignment, order, aliases.

    Args:
        graph: The graph to check.

    Raises:
        InternalError: A rule is broken; the message names the value and the node.
    """
    types = _verify_nodes(graph)
    for result in graph.results:
        if result.value not in types:
            raise InternalError(f"Graph result %{result.value} is not defined.")
    for argument in graph.arguments:
        _verify_argument(graph, argument, types)


def _verify_nodes(graph: Graph) -> dict[str, TensorType]:
    types: dict[str, TensorType] = {}
    for argument in graph.arguments:
        if argument.name in types:
            raise InternalError(f"Argument %{argument.name} is declared twice.")
        types[argument.name] = argument.type
    for node in graph.nodes:
        for operand in node.operands:
            if operand not in types:
                raise InternalError(f"{node.op} at {node.location} reads undefined %{operand}.")
        if len(node.results) != len(node.types):
            raise InternalError(
                f"{node.op} at {node.location} has {len(node.results)} results and "
                f"{len(node.types)} types."
            )
        for name, type_ in zip(node.results, node.types, strict=True):
            if name in types:
                raise InternalError(f"{node.op} at {node.location} assigns %{name} again.")
            types[name] = type_
    return types


def _verify_argument(graph: Graph, argument: Argument, types: Mapping[str, TensorType]) -> None:
    if (argument.resource_name is None) == (argument.input_name is None):
        raise InternalError(f"Argument %{argument.name} is neither state nor batch tensor.")
    if argument.aliased_result is None:
        return
    if not 0 <= argument.aliased_result < len(graph.results):
        raise InternalError(
            f"State {argument.resource_name!r} aliases result {argument.aliased_result} of "
            f"{len(graph.results)}."
        )
    new = graph.results[argument.aliased_result].value
    if types[new] != argument.type:
        raise InternalError(
            f"State {argument.resource_name!r} is {argument.type}, its new value {types[new]}."
        )
