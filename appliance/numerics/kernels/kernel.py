"""The type of a compiled operation, and steps shared by its builders."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from appliance.core.ir.graph import Node
from appliance.core.ir.tensors import TensorType
from appliance.numerics.float_formats import round_to

Values = torch.Tensor | tuple[torch.Tensor, ...]
"""What a kernel returns: the tensor of a node with one result, a tuple for several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """An operation whose attributes have been evaluated.

    A kernel never writes to its operands. Its result may share memory with an operand (reshape,
    transpose, broadcast, slice), and need not be contiguous.

    Attributes:
        call: Called with the operand tensors.
        into: Called with a tensor of the first result's type and then the operands; writes the
            result there. None where the result has to be computed first and copied then.
        fill: For a kernel of several results, called with a tensor for each result and one for each
            operand; writes every result. None where results have to be computed first.
        reads_step: Whether the number of the training step follows the operands, as a scalar.
        is_rounded: Whether 16-bit results are already rounded to their format.
        takes_bfloat16: Whether bfloat16 operands, and results that `into` writes, may be tensors of
            that type instead of float32 containers.
    """

    call: Callable[..., Values]
    into: Callable[..., object] | None = None
    fill: Callable[[Sequence[torch.Tensor], Sequence[torch.Tensor]], None] | None = None
    reads_step: bool = False
    is_rounded: bool = False
    takes_bfloat16: bool = False


Builder = Callable[[Node, Sequence[TensorType]], Kernel]
"""Makes the kernel of a node from the types of its operands."""

Builders = Mapping[str, Builder]
"""The operations of one family, by name."""


def direct(function: Callable[..., torch.Tensor]) -> Builder:
    """Return a builder for a torch function that takes the operands and `out`."""

    def into(out: torch.Tensor, *operands: torch.Tensor) -> None:
        function(*operands, out=out)

    kernel = Kernel(call=function, into=into)
    return lambda _node, _types: kernel


def plain(function: Callable[..., Values]) -> Builder:
    """Return a builder for a function of the operands alone, which has no `out`."""
    kernel = Kernel(call=function)
    return lambda _node, _types: kernel


def rounded(kernel: Kernel, types: Sequence[TensorType]) -> Kernel:
    """Return the kernel with each 16-bit result rounded to its format."""
    dtypes = [type_.dtype for type_ in types]

    def call_one(*operands: torch.Tensor) -> Values:
        result = kernel.call(*operands)
        assert isinstance(result, torch.Tensor)
        return round_to(dtypes[0], result)

    def call_many(*operands: torch.Tensor) -> Values:
        results = kernel.call(*operands)
        return tuple(round_to(dtype, value) for dtype, value in zip(dtypes, results, strict=True))

    return Kernel(call=call_one if len(dtypes) == 1 else call_many, reads_step=kernel.reads_step)


def channels_last(kernel: Kernel, operands: Sequence[bool], results: Sequence[bool]) -> Kernel:
    """Return a channels-first kernel for channels-last activations.

    Args:
        kernel: The channels-first kernel.
        operands: Which operands are activations.
    """

    def call(*given: torch.Tensor) -> Values:
        moved = [x.movedim(-1, 1) if moves else x for x, moves in zip(given, operands, strict=True)]
        found = kernel.call(*moved)
        if isinstance(found, torch.Tensor):
            return found.movedim(1, -1) if results[0] else found
        pairs = zip(found, results, strict=True)
        return tuple(x.movedim(1, -1) if moves else x for x, moves in pairs)

    return Kernel(call=call)
