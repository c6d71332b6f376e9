"""From a node to the definition of its operation."""

from collections.abc import Callable, Sequence

import numpy as np

from appliance.core.errors import InternalError
from appliance.core.ir.graph import Node
from appliance.numerics.channels_first import to_channels_first
from appliance.numerics.reference import (
    elementwise,
    indexing,
    linear_algebra,
    losses,
    movement,
    normalization,
    reductions,
    routed_products,
    sampling,
    sources,
    windows,
)
from appliance.numerics.reference.definition import Array, Definition, as_operand, as_result

_DEFINITIONS: dict[str, Definition] = {
    **elementwise.DEFINITIONS,
    **indexing.DEFINITIONS,
    **linear_algebra.DEFINITIONS,
    **losses.DEFINITIONS,
    **movement.DEFINITIONS,
    **normalization.DEFINITIONS,
    **reductions.DEFINITIONS,
    **routed_products.DEFINITIONS,
    **sampling.DEFINITIONS,
    **sources.DEFINITIONS,
    **windows.DEFINITIONS,
}

_RANDOM: dict[str, Callable[..., Array]] = {**sampling.RANDOM, **sources.RANDOM}


def defined_ops() -> frozenset[str]:
    """Return the names of the operations that have a definition."""
    return frozenset(_DEFINITIONS) | frozenset(_RANDOM)


def evaluate(node: Node, operands: Sequence[Array], *, step: int) -> tuple[Array, ...]:
    """Compute the results of a node.

    Args:
        node: The operation.
        operands: Containers of its operands.
        step: Number of the training step, for random operations.

    Returns:
        Containers of its results, in order.

    Raises:
        InternalError: The operation has no definition.
        ValueError: The operands make no sense, such as an index out of range.
    """
    other = to_channels_first(node, [x.shape for x in operands])
    if other is None:
        return _evaluate(node, operands, step)
    moved = [
        np.moveaxis(x, -1, 1) if moves else x
        for x, moves in zip(operands, other.operands, strict=True)
    ]
    results = zip(_evaluate(other.node, moved, step), other.results, strict=True)
    return tuple(np.moveaxis(x, 1, -1) if moves else x for x, moves in results)


def _evaluate(node: Node, operands: Sequence[Array], step: int) -> tuple[Array, ...]:
    with np.errstate(all="ignore"):
        if node.op in _RANDOM:
            values: Array | tuple[Array, ...] = _RANDOM[node.op](
                node, step, *[as_operand(x) for x in operands]
            )
        elif node.op in _DEFINITIONS:
            values = _DEFINITIONS[node.op](node, *[as_operand(x) for x in operands])
        else:
            raise InternalError(f"Operation {node.op!r} at {node.location} has no definition.")
        results = values if isinstance(values, tuple) else (values,)
        return tuple(as_result(x, t) for x, t in zip(results, node.types, strict=True))
