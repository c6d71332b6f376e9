"""The kernel of a loop: tensors in, tensors out."""

from collections.abc import Mapping, Sequence

import torch

from appliance.core.graph import Node
from appliance.core.tensors import TensorType
from appliance.numerics.elements import torch_dtype
from appliance.numerics.groups import Group, Uses
from appliance.numerics.kernels import Kernel
from appliance.numerics.loops.llvm_text import Operand, Region, write_function
from appliance.numerics.loops.machine_code import compile_text


def region_group(
    members: Sequence[int],
    nodes: Sequence[Node],
    types: Mapping[str, TensorType],
    known: Mapping[str, torch.Tensor],
    uses: Uses,
) -> Group:
    """Return the group of a loop that `find_regions` has found."""
    inside = tuple(nodes[position] for position in members)
    defined = {node.results[0] for node in inside}
    size = max(types[name].num_elements for name in defined)
    read = dict.fromkeys(n for node in inside for n in node.operands if n not in defined)
    outside = uses.outside(members)
    region = Region(
        operands=tuple(_operand(name, types[name], known) for name in read),
        nodes=inside,
        results=tuple(node.results[0] for node in inside if node.results[0] in outside),
        singles=frozenset(name for name in (*read, *defined) if types[name].num_elements == 1),
        types=types,
    )
    passed = tuple(operand.name for operand in region.operands if operand.value is None)
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


def _operand(name: str, type_: TensorType, known: Mapping[str, torch.Tensor]) -> Operand:
    value: float | int | bool | None = None
    constant = known.get(name)
    if constant is not None and _is_uniform(constant):
        value = constant.reshape(-1)[0].item()
    is_single = value is not None or type_.num_elements == 1
    return Operand(name=name, dtype=type_.dtype, is_single=is_single, value=value)


def _is_uniform(constant: torch.Tensor) -> bool:
    """Whether a constant is one element seen many times."""
    steps = zip(constant.stride(), constant.shape, strict=True)
    return constant.numel() > 0 and all(not step or length == 1 for step, length in steps)


def _kernel(region: Region, passed: tuple[str, ...], size: int) -> Kernel:
    code = compile_text(write_function(region), len(passed) + len(region.results))
    made = [(region.types[n].shape, torch_dtype(region.types[n].dtype)) for n in region.results]

    def fill(outs: Sequence[torch.Tensor], operands: Sequence[torch.Tensor]) -> None:
        whole = [x if x.is_contiguous() else x.contiguous() for x in operands]
        code(size, *[x.data_ptr() for x in whole], *[x.data_ptr() for x in outs])

    def call(*operands: torch.Tensor) -> tuple[torch.Tensor, ...]:
        outs = tuple([torch.empty(shape, dtype=dtype) for shape, dtype in made])
        fill(outs, operands)
        return outs

    return Kernel(call=call, fill=fill)
