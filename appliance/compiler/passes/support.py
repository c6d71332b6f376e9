"""Refusal of what cannot be computed, in the user's terms: module, Python line, shapes."""

import re
from collections.abc import Mapping, Sequence

from appliance.core.errors import ProgramError
from appliance.core.ir.graph import Argument, Direction, Graph, Node
from appliance.core.ir.ops import SPECS, check_node
from appliance.core.ir.tensors import TensorType

MARKERS = frozenset(
    {
        *("AnnotateTensor", "ConstrainValueLayout", "RefillRecomputeConstraint", "ScopeBoundary"),
        *("SerializeBarrier", "TagGradient", "DeviceToDeviceTransfer", "MeshShard"),
        *("MeshAllSlice", "MeshAllGather", "MeshToMeshTransfer"),
    }
)
"""Ops of the program text that compute nothing; `normalise` removes them.

The `Mesh` ones say how the client would lay tensors out over its devices; their types are those of
the whole tensor, and where things go is decided here.
"""

LOOP_OPS = frozenset({"wsc.NextTokens", "wsc.Position"})
"""Ours, but put there as the text is read; see `position_loop`."""

OURS = "wsc."
_ONLY_IN_TEXT = frozenset({"DMatMul", "ReduceBias", "Slice"})
_MAX_LISTED = 20
_PLACEHOLDER = re.compile(r"placeholder\d+")
_MODEL_STATE = "state.model."
_SHAPES_ONLY = "torch/_meta_registrations.py"
"""Where PyTorch says of operations what shape their results have, and computes nothing."""
_DECOMPOSITIONS = "torch/_refs/nn/functional/__init__.py"
"""Where PyTorch writes operations of `torch.nn.functional` by others."""
_LOST_BEFORE = {"pixel_unshuffle": "pixel_shuffle"}
"""Operations that the client loses, by what it traces as their gradient.

Folded into a cast, the zeros do not say any more where they come from.
"""


def check_support(graph: Graph) -> None:
    """Refuse a program with operations that the appliance cannot compute.

    Args:
        graph: The program as imported.

    Raises:
        ProgramError: Names every kind of refused operation, the first with all that is known of it.
    """
    refused = [node for node in graph.nodes if not _is_known(node.op)]
    if not refused:
        return
    kinds = list(dict.fromkeys(node.op for node in refused))
    others = kinds[1 : _MAX_LISTED + 1]
    also = f" Also not supported: {', '.join(others)}." if others else ""
    more = f" And {len(kinds) - len(others) - 1} more." if len(kinds) > len(others) + 1 else ""
    raise ProgramError(
        f"Operation {describe(refused[0], graph.types())} is not supported.{also}{more}",
        hint="Express it by other operations of the framework, or open an issue that names it.",
    )


def check_values(graph: Graph) -> None:
    """Refuse a program that reads tensors for which the client will send no value.

    The client names a tensor that is neither state nor batch `placeholder<N>`, and ends the run
    when it should send it, when systems are already granted.

    Args:
        graph: The program as imported.

    Raises:
        ProgramError: Names the first such tensor, the line that reads it, and what to write.
    """
    strangers = [a for a in graph.arguments if _PLACEHOLDER.fullmatch(a.resource_name or "")]
    if not strangers:
        return
    names = [a.name for a in strangers]
    first = next((n for n in graph.nodes if not set(names).isdisjoint(n.operands)), None)
    where = f" in {first.location}" if first else ""
    if any((a.resource_name or "").startswith(_MODEL_STATE) for a in graph.arguments):
        raise ProgramError(
            f"The step makes {_counted(strangers)} for itself{where}: the client sends no value.",
            hint=(
                "Register it with register_buffer in the compiled module, or write "
                "cstorch.make_constant(tensor) of a CPU tensor. If it is a parameter, make its "
                "module a part of the one that cstorch.compile takes."
            ),
        )
    raise ProgramError(
        f"The step calls a module that is not compiled: it reads {_counted(strangers)}{where}, "
        "and no parameter of the compiled module.",
        hint="Call what cstorch.compile returned in the step, not the module that it was given.",
    )


def check_results(graph: Graph) -> None:
    """Refuse a program that holds zeros where an operation's result should be.

    Where the client cannot trace an operation for which PyTorch can say the result's shape, it
    traces what says the shape: an empty tensor, which it writes as zeros.

    Args:
        graph: The program as imported.

    Raises:
        ProgramError: Names the operation, its module and the line.
    """
    read = {name for node in graph.nodes for name in node.operands}
    read |= {result.value for result in graph.results}
    for node in graph.nodes:
        is_read = not read.isdisjoint(node.results)
        if found := _lost_before(node) or (is_read and _lost_in(node)):
            raise ProgramError(
                f"The client's program has lost what {found} computes in {node.location}: it holds "
                "zeros instead.",
                hint="Write it with other operations, such as reshape and permute.",
            )


def _lost_in(node: Node) -> str:
    """Return the operation whose result a constant should be; empty if it is what it should be."""
    frames = node.location.frames
    if node.op == "Const" and frames and frames[0].file.endswith(_SHAPES_ONLY):
        return frames[0].function.removeprefix("meta_")
    return ""


def _lost_before(node: Node) -> str:
    """Return the operation of the forward pass that a node is the gradient of, if it is lost."""
    if node.location.direction is not Direction.BACKWARD:
        return ""
    frames = node.location.frames
    functions = (frame.function for frame in frames if frame.file.endswith(_DECOMPOSITIONS))
    return next((_LOST_BEFORE[name] for name in functions if name in _LOST_BEFORE), "")


def _counted(arguments: Sequence[Argument]) -> str:
    first = f"{arguments[0].type} ({arguments[0].resource_name})"
    others = len(arguments) - 1
    return f"{first} and {others} more" if others else first


def check_signatures(graph: Graph) -> None:
    """Refuse a normalised program whose operations contradict their signatures.

    Raises:
        ProgramError: Names the first such operation and what is wrong with it.
    """
    types = graph.types()
    for node in graph.nodes:
        problem = check_node(node, [types[name] for name in node.operands])
        if problem:
            raise ProgramError(
                f"Operation {describe(node, types)} {problem}.",
                hint="The program text is damaged, or newer than this appliance.",
            )


def describe(node: Node, types: Mapping[str, TensorType]) -> str:
    """Return a node as a user knows it: name, operand types, module and Python line."""
    operands = _listed([types[name] for name in node.operands])
    operation = f", {node.location.operation}" if node.location.operation else ""
    return f"{node.op}{operands} -> {_listed(node.types)} of {node.location}{operation}"


def _listed(types: Sequence[TensorType]) -> str:
    return f"({', '.join(map(str, types))})"


def _is_known(op: str) -> bool:
    if op.startswith(OURS):
        return op in LOOP_OPS
    return op in SPECS or op in MARKERS or op in _ONLY_IN_TEXT
