"""The kernel of a loop: tensors in, tensors out."""

from collections.abc import Mapping, Sequence

import torch

from appliance.core.ir.attributes import integers
from appliance.core.ir.graph import Node
from appliance.core.ir.tensors import TensorType
from appliance.numerics.elements import torch_dtype
from appliance.numerics.groups import Group, Uses
from appliance.numerics.kernels import Kernel
from appliance.numerics.loops.llvm_text import VECTOR_WIDTH, Operand, Region, write_function
from appliance.numerics.loops.machine_code import compile_text

_SMALLEST_SHARED = 1 << 15
"""Elements from which on threads share a loop: 0.1 MB, some 20 microseconds of one thread."""


def region_group(
    members: Sequence[int],
    nodes: Sequence[Node],
    types: Mapping[str, TensorType],
    known: Mapping[str, torch.Tensor],
    uses: Uses,
    *,
    is_narrow: bool = False,
) -> Group:
    """Return the group of a loop that `find_regions` has found.

    Args:
        members: Positions of its nodes.
        nodes: The computation, in order.
        types: Type of every value.
        known: Values that never change.
        uses: Who reads what.
        is_narrow: Whether bfloat16 values lie in two bytes each; a loop that is given float32
            containers converts them before.
    """
    inside = tuple(nodes[position] for position in members)
    defined = {node.results[0] for node in inside}
    size = max(types[name].num_elements for name in defined)
    read = dict.fromkeys(n for node in inside for n in node.operands if n not in defined)
    repeated = {
        name: source
        for name in read
        if name not in known and (source := _repeated(name, nodes, types, uses)) is not None
    }
    outside = uses.outside(members)
    region = Region(
        operands=tuple(_operand(name, types, known, repeated.get(name)) for name in read),
        nodes=inside,
        results=tuple(node.results[0] for node in inside if node.results[0] in outside),
        singles=frozenset(name for name in (*read, *defined) if types[name].num_elements == 1),
        types=types,
        is_narrow=is_narrow,
    )
    arguments = [operand.name for operand in region.operands if operand.value is None]
    passed = tuple(repeated.get(name, name) for name in arguments)
    every = {*passed, *region.results}
    return Group(
        nodes=inside,
        kernel=_kernel(region, passed, size),
        operands=passed,
        results=region.results,
        types=tuple(types[name] for name in region.results),
        elementwise=frozenset(name for name in every if types[name].num_elements == size),
        memory_of_its_own=True,
    )


def _repeated(
    name: str, nodes: Sequence[Node], types: Mapping[str, TensorType], uses: Uses
) -> str | None:
    """Return the value whose elements a value repeats in the same order, such as a layer's bias."""
    position = uses.producers.get(name)
    if position is None or nodes[position].op != "BroadcastInDim":
        return None
    source = nodes[position].operands[0]
    shape, whole = types[source].shape, types[name].shape
    last = tuple(range(len(whole) - len(shape), len(whole)))
    if integers(nodes[position], "broadcast_dimensions") != last:
        return None
    count = types[source].num_elements
    is_whole = 1 < count < types[name].num_elements and count % VECTOR_WIDTH == 0
    return source if is_whole and shape == whole[last[0] :] else None


def _operand(
    name: str,
    types: Mapping[str, TensorType],
    known: Mapping[str, torch.Tensor],
    source: str | None,
) -> Operand:
    value: float | int | bool | None = None
    constant = known.get(name)
    if constant is not None and _is_uniform(constant):
        value = constant.reshape(-1)[0].item()
    is_single = value is not None or types[name].num_elements == 1
    return Operand(
        name=name,
        dtype=types[name].dtype,
        is_single=is_single,
        value=value,
        period=0 if source is None else types[source].num_elements,
    )


def _is_uniform(constant: torch.Tensor) -> bool:
    """Whether a constant is one element seen many times."""
    steps = zip(constant.stride(), constant.shape, strict=True)
    return constant.numel() > 0 and all(not step or length == 1 for step, length in steps)


def _element_type(region: Region, name: str) -> torch.dtype:
    """Return how a value's elements lie in the memory that a loop reads or writes."""
    return torch.bfloat16 if region.is_packed(name) else torch_dtype(region.types[name].dtype)


def _kernel(region: Region, passed: tuple[str, ...], size: int) -> Kernel:
    code = compile_text(write_function(region), len(passed) + len(region.results))
    made = [(region.types[n].shape, _element_type(region, n)) for n in region.results]
    read = [_element_type(region, name) for name in passed]
    # A result of one element is written in front of the loop, by each thread that comes there.
    may_split = size >= _SMALLEST_SHARED and not region.singles & set(region.results)

    def fill(outs: Sequence[torch.Tensor], operands: Sequence[torch.Tensor]) -> None:
        pairs = zip(operands, read, strict=True)
        whole = [x if x.is_contiguous() else x.contiguous() for x in (x.to(t) for x, t in pairs)]
        # A loop writes row by row, whatever the order of a result in memory.
        rooms = [
            x if x.dtype is dtype and x.is_contiguous() else torch.empty(x.shape, dtype=dtype)
            for x, (_, dtype) in zip(outs, made, strict=True)
        ]
        pointers = [x.data_ptr() for x in (*whole, *rooms)]
        if may_split and (num_threads := torch.get_num_threads()) > 1:
            code.run_on_threads(size, pointers, num_threads)
        else:
            code.run(size, pointers)
        for out, room in zip(outs, rooms, strict=True):
            if room is not out:
                out.copy_(room)

    def call(*operands: torch.Tensor) -> tuple[torch.Tensor, ...]:
        outs = tuple([torch.empty(shape, dtype=dtype) for shape, dtype in made])
        fill(outs, operands)
        return outs

    return Kernel(call=call, fill=fill)
