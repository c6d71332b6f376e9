"""From a node to its kernel."""

from collections.abc import Sequence

from appliance.core.errors import InternalError
from appliance.core.ir.graph import Node
from appliance.core.ir.tensors import TensorType
from appliance.numerics.channels_first import move_types, to_channels_first
from appliance.numerics.kernels import (
    convolution,
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
)
from appliance.numerics.kernels.kernel import Builder, Kernel, channels_last, rounded

_BUILDERS: dict[str, Builder] = {
    **convolution.BUILDERS,
    **elementwise.BUILDERS,
    **indexing.BUILDERS,
    **linear_algebra.BUILDERS,
    **losses.BUILDERS,
    **movement.BUILDERS,
    **normalization.BUILDERS,
    **reductions.BUILDERS,
    **routed_products.BUILDERS,
    **sampling.BUILDERS,
    **sources.BUILDERS,
}

_NEVER_ROUNDED = frozenset(movement.BUILDERS) | {
    "Abs", "Clamp", "Gather", "GatherNd", "Relu", "Select", "Sign", "TopK",
}  # fmt: skip
"""Operations whose results are elements of their operands, hence already representable."""


def supported_ops() -> frozenset[str]:
    """Return the names of the operations that have a kernel."""
    return frozenset(_BUILDERS)


def compile_node(node: Node, operand_types: Sequence[TensorType]) -> Kernel:
    """Return the kernel that computes a node.

    16-bit results are rounded to their format; sums and products inside a kernel are not.

    Args:
        node: The operation.
        operand_types: Types of its operands, in order.

    Raises:
        InternalError: The operation has no kernel, or its attributes make no sense.
    """
    kernel = unrounded_kernel(node, operand_types)
    if (
        kernel.is_rounded
        or node.op in _NEVER_ROUNDED
        or not any(type_.dtype.is_half for type_ in node.types)
    ):
        return kernel
    return rounded(kernel, node.types)


def unrounded_kernel(node: Node, operand_types: Sequence[TensorType]) -> Kernel:
    """Return the kernel that computes a node, for a caller that rounds its 16-bit results.

    Raises:
        InternalError: The operation has no kernel, or its attributes make no sense.
    """
    build = _BUILDERS.get(node.op)
    if build is None:
        raise InternalError(f"Operation {node.op!r} at {node.location} has no kernel.")
    other = to_channels_first(node, [type_.shape for type_ in operand_types])
    if other is None:
        return build(node, operand_types)
    kernel = build(other.node, move_types(operand_types, other.operands))
    return channels_last(kernel, other.operands, other.results)
