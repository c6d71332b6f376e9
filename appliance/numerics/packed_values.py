"""16-bit numbers in two bytes each, as they cross wires; in memory they are float32 containers.

A packed tensor has the element type int16, whatever the format; see `loops.packing` for what the
bits mean. Packing rounds, with the digits of `float_formats`; unpacking gives back what it rounded
to. One loop in machine code does either, in one pass over memory.
"""

import functools

import torch

from appliance.core.ir.graph import Node
from appliance.core.ir.tensors import DType, TensorType
from appliance.numerics.loops.llvm_text import Operand, Region, write_function
from appliance.numerics.loops.machine_code import MachineCode, compile_text

_SMALLEST_SHARED = 1 << 15
"""Elements from which on threads share a loop, as for other loops."""
_WIDE, _PACKED = "wide", "packed"


def pack(dtype: DType, values: torch.Tensor, out: torch.Tensor) -> None:
    """Round float32 numbers to a 16-bit format and write its bits.

    Args:
        dtype: The format.
        values: float32, contiguous.
        out: int16, contiguous, as many elements.
    """
    _run(_packing(dtype), values, out)


def unpack(dtype: DType, packed: torch.Tensor, out: torch.Tensor) -> None:
    """Write the numbers that packed ones are.

    Args:
        dtype: The format that they were packed to.
        packed: int16, contiguous.
        out: float32, contiguous, as many elements.
    """
    _run(_unpacking(dtype), packed, out)


def _run(code: MachineCode, source: torch.Tensor, target: torch.Tensor) -> None:
    assert source.is_contiguous()
    assert target.is_contiguous()
    size, pointers = source.numel(), (source.data_ptr(), target.data_ptr())
    assert size == target.numel()
    num_threads = torch.get_num_threads()
    if size >= _SMALLEST_SHARED and num_threads > 1:
        code.run_on_threads(size, pointers, num_threads)
    else:
        code.run(size, pointers)


@functools.cache
def _packing(dtype: DType) -> MachineCode:
    node = Node(op="Cast", operands=(_WIDE,), results=(_PACKED,), types=(_type(dtype),))
    return _compiled(node, DType.F32)


@functools.cache
def _unpacking(dtype: DType) -> MachineCode:
    # What is read is rounded already, so that nothing is left to do but to write it.
    node = Node(op="Reshape", operands=(_PACKED,), results=(_WIDE,), types=(_type(dtype),))
    return _compiled(node, dtype)


def _compiled(node: Node, source: DType) -> MachineCode:
    (name,), (result,) = node.operands, node.results
    region = Region(
        operands=(Operand(name=name, dtype=source, is_single=False),),
        nodes=(node,),
        results=(result,),
        singles=frozenset(),
        types={name: _type(source), result: node.types[0]},
        packed=frozenset({_PACKED}),
    )
    return compile_text(write_function(region), 2)


def _type(dtype: DType) -> TensorType:
    """Return the type of values; how many there are is known when the loop runs."""
    return TensorType((0,), dtype)
