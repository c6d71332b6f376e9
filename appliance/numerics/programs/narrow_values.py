"""bfloat16 values that lie in two bytes each between the operations of a program.

Elsewhere a bfloat16 value is held in a float32 container. In a program whose pool is narrow,
results of this type are stored as torch's bfloat16, so that products read them without conversion
and everything else moves half the bytes. Values are rounded at the same places as in containers.

What comes from outside (weights, batches, constants) and what is written to a caller's tensor are
containers. So every kernel takes both: products, loops, sums of two tensors and what only moves
elements take bfloat16 as it lies; all other kernels see containers, as in other programs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch

from appliance.core.ir.graph import Node
from appliance.core.ir.ops import VIEW_OPS
from appliance.core.ir.tensors import DType, TensorType
from appliance.numerics.elements import torch_dtype
from appliance.numerics.groups import Group
from appliance.numerics.kernels import Kernel, movement
from appliance.numerics.kernels.compile import unrounded_kernel
from appliance.numerics.kernels.kernel import Builders, Values, direct

_BY_TORCH: Builders = {
    "Add": direct(torch.add),
    "Concat": movement.BUILDERS["Concat"],
    "Mul": direct(torch.mul),
    "Sub": direct(torch.sub),
}
"""What torch moves as it lies, or computes in float32 and rounds once, as containers are."""


def narrow_group(group: Group, types: Mapping[str, TensorType]) -> Group:
    """Return the group of a single node with a kernel that takes bfloat16 tensors, too.

    Args:
        types: Type of every value; what it does not know is no bfloat16.
    """
    (node,) = group.nodes
    operands = [types[name].dtype if name in types else DType.F32 for name in group.operands]
    results = [type_.dtype for type_ in group.types]
    if DType.BF16 not in (*operands, *results) or group.kernel.takes_bfloat16:
        return group
    if node.op == "Cast" and operands[0] is not results[0]:
        return replace(group, kernel=_cast(results[0]), memory_of_its_own=True)
    if node.op in VIEW_OPS:
        return group
    if set(operands) == set(results) == {DType.BF16} and (node.op in _BY_TORCH):
        return replace(group, kernel=_on_bfloat16(_BY_TORCH[node.op](node, ())))
    kernel = group.kernel
    if results == [DType.BF16] and not kernel.reads_step:
        kernel = unrounded_kernel(node, [types[name] for name in node.operands])
        return replace(group, kernel=_narrowed(kernel))
    return replace(group, kernel=_on_containers(kernel, results))


def is_one_pass(node: Node, types: Mapping[str, TensorType]) -> bool:
    """Return whether torch needs one pass over memory for a node, however its operands lie.

    Args:
        node: A node of a program whose bfloat16 values take two bytes.
        types: Type of every value.
    """
    operands = {types[name].dtype for name in node.operands}
    if node.op == "Cast":
        return DType.BF16 in (*operands, node.types[0].dtype)
    return node.op in _BY_TORCH and {*operands, node.types[0].dtype} == {DType.BF16}


def as_bfloat16(values: torch.Tensor) -> torch.Tensor:
    """Return bfloat16 numbers in two bytes each; what is repeated in memory stays so."""
    if values.dtype is torch.bfloat16:
        return values
    once = values[tuple(slice(0, 1) if step == 0 else slice(None) for step in values.stride())]
    return once.to(torch.bfloat16).expand(values.shape)


def _cast(target: DType) -> Kernel:
    """Return the kernel of a cast from or to bfloat16; its result is never its operand."""
    dtype = torch.bfloat16 if target is DType.BF16 else torch_dtype(target)

    def call(x: torch.Tensor) -> Values:
        return x.to(dtype, copy=True)

    return Kernel(call=call, into=torch.Tensor.copy_)


def _on_bfloat16(kernel: Kernel) -> Kernel:
    """Return a kernel that is given bfloat16 tensors."""
    plain_into = kernel.into
    assert plain_into is not None

    def call(*operands: torch.Tensor) -> Values:
        return kernel.call(*map(as_bfloat16, operands))

    def into(out: torch.Tensor, *operands: torch.Tensor) -> None:
        plain_into(out, *map(as_bfloat16, operands))

    return Kernel(call=call, into=into)


def _narrowed(kernel: Kernel) -> Kernel:
    """Return a kernel that is given containers, and whose one result is rounded as it is stored."""

    def call(*operands: torch.Tensor) -> Values:
        found = kernel.call(*map(_container, operands))
        assert isinstance(found, torch.Tensor)
        return found.to(torch.bfloat16)

    def into(out: torch.Tensor, *operands: torch.Tensor) -> None:
        found = kernel.call(*map(_container, operands))
        assert isinstance(found, torch.Tensor)
        out.copy_(found if out.dtype is torch.bfloat16 else found.to(torch.bfloat16))

    return Kernel(call=call, into=into)


def _on_containers(kernel: Kernel, results: Sequence[DType]) -> Kernel:
    """Return a kernel that is given containers; a program narrows its results as it keeps them."""

    def call(*operands: torch.Tensor) -> Values:
        return kernel.call(*map(_container, operands))

    plain_into, plain_fill = kernel.into, kernel.fill
    if DType.BF16 in results:
        return Kernel(call=call, reads_step=kernel.reads_step, is_rounded=kernel.is_rounded)

    def into(out: torch.Tensor, *operands: torch.Tensor) -> None:
        assert plain_into is not None
        plain_into(out, *map(_container, operands))

    def fill(outs: Sequence[torch.Tensor], operands: Sequence[torch.Tensor]) -> None:
        assert plain_fill is not None
        plain_fill(outs, [_container(each) for each in operands])

    return replace(
        kernel,
        call=call,
        into=None if plain_into is None else into,
        fill=None if plain_fill is None else fill,
    )


def _container(values: torch.Tensor) -> torch.Tensor:
    return values.to(torch.float32) if values.dtype is torch.bfloat16 else values
