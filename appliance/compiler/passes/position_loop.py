"""Pass: an autoregressive loop, which the text has in attributes, becomes two operations.

The client's `start_implicit_loop` and `update_implicit_loop` leave marks on arguments and results:
which batch tensor holds the tokens, that the index is an argument nobody delivers, which result is
the token to put behind the index, and that the tokens themselves, returned as they came in, are the
result of the loop. Here the index becomes `wsc.Position`, and the tokens that are returned become
`wsc.NextTokens` of tokens, index, update and stop sequences. What happens between two passes is the
business of `appliance.core.plans.generation`.

The update and the stop sequences, which the client marks as outputs that nobody reads, are dropped
from the results.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from appliance.core.errors import ProgramError
from appliance.core.ir.graph import UNKNOWN_LOCATION, Attribute, Graph, Node
from appliance.core.ir.tensors import DType, TensorType

_LOOP = "cs.autoregressive."
_UNUSED = "cs.autoregressive_unused_output"
NO_LIMIT = -1
"""`max_tokens` of a loop that ends at a stop sequence or at the end of the sequence only."""

Attributes = Mapping[str, Attribute]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loop:
    """What a result says of the loop that it ends."""

    position: int
    attributes: Attributes

    def text(self, name: str) -> str:
        value = self.attributes.get(f"{_LOOP}{name}")
        if not isinstance(value, str) or not value:
            raise ProgramError(f"The autoregressive loop does not say its {name}.")
        return value

    def integer(self, name: str, default: int | None = None) -> int:
        value = self.attributes.get(f"{_LOOP}{name}", default)
        if not isinstance(value, int):
            raise ProgramError(f"The autoregressive loop has {name} {value!r}, which is no number.")
        return value

    def start_tokens(self) -> tuple[int, ...]:
        value = self.attributes.get(f"{_LOOP}start_token")
        if not isinstance(value, tuple) or not value:
            raise ProgramError(f"The autoregressive loop has the start tokens {value!r}.")
        return value


def with_position_loop(graph: Graph, marks: Sequence[Attributes]) -> Graph:
    """Return a graph with its autoregressive loop as operations; one without a loop as it is.

    Args:
        graph: The graph as read.
        marks: The attributes of each of its results.

    Raises:
        ProgramError: There are several loops, or one that contradicts itself.
    """
    loops = [
        _Loop(position=position, attributes=attributes)
        for position, attributes in enumerate(marks)
        if any(name.startswith(_LOOP) for name in attributes)
    ]
    if not loops:
        return graph
    if len(loops) > 1:
        raise ProgramError(
            f"The program has {len(loops)} autoregressive loops.",
            hint="Call update_implicit_loop once in a step.",
        )
    return _placed(graph, loops[0], marks)


def _placed(graph: Graph, loop: _Loop, marks: Sequence[Attributes]) -> Graph:
    dim = loop.integer("loop_dim")
    if dim < 1:
        raise ProgramError(
            f"The autoregressive loop goes over dim {dim}, which is that of the samples.",
            hint="Have the samples first, and loop_dim at least 1.",
        )
    names = ("input_name", "index_name", "stop_sequences_name")
    tokens, index, stop = (_input(graph, loop.text(name)) for name in names)
    update = next(
        (r.value for r in graph.results if r.output_name == loop.text("update_name")), None
    )
    if update is None:
        raise ProgramError(f"The program does not return {loop.text('update_name')!r}.")
    types = graph.types()
    after = f"{tokens}.generated"
    nodes = (
        Node(
            op="wsc.Position",
            operands=(),
            results=(index,),
            types=(TensorType(types[index].shape, DType.I32),),
            location=UNKNOWN_LOCATION,
        ),
        *graph.nodes,
        Node(
            op="wsc.NextTokens",
            operands=(tokens, index, update, stop),
            results=(after,),
            types=(types[tokens],),
            attributes={
                "loop_dim": dim,
                "start_tokens": loop.start_tokens(),
                "max_tokens": loop.integer("max_tokens", NO_LIMIT),
            },
            location=UNKNOWN_LOCATION,
        ),
    )
    results = list(graph.results)
    results[loop.position] = replace(results[loop.position], value=after)
    for position, attributes in enumerate(marks):
        if attributes.get(_UNUSED):
            results[position] = replace(results[position], output_name=None)
    arguments = tuple(argument for argument in graph.arguments if argument.name != index)
    return replace(graph, arguments=arguments, nodes=nodes, results=tuple(results))


def _input(graph: Graph, input_name: str) -> str:
    for argument in graph.arguments:
        if argument.input_name == input_name:
            return argument.name
    raise ProgramError(f"The autoregressive loop names the batch tensor {input_name!r}: none is.")
