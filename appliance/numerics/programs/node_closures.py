"""Nodes as closures over a table of values: one call per operation, all decisions made before.

An instruction reads its operands from the table, runs the kernel, stores the results and deletes
what nobody reads any more. Everything known when a program is built (arity, names, whether a result
is written to the caller's tensor) is evaluated then.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import torch

from appliance.core.ir.tensors import TensorType
from appliance.numerics.elements import torch_dtype
from appliance.numerics.kernels import Kernel
from appliance.numerics.memory_layout import Order
from appliance.numerics.programs.pool import TensorPool

Table = dict[str, torch.Tensor]
Instruction = Callable[[Table], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A node with what a program knows about it.

    Attributes:
        operands: Names of the values the kernel is called with.
        results: Names of its results.
        dead: Names of the values to delete afterwards.
        is_view: Whether results may be views of an operand.
        view_shape: The shape in which the result shows the operand, if it is that and no more.
        orders: How results lie in memory that do not lie row by row; see `orders`.
    """

    kernel: Kernel
    operands: tuple[str, ...]
    results: tuple[str, ...]
    dead: tuple[str, ...]
    is_view: bool = False
    view_shape: tuple[int, ...] | None = None
    orders: Mapping[str, Order] = field(default_factory=dict)


def compute(task: Task) -> Instruction:
    """Return the instruction that computes a task's results and stores them."""
    if len(task.results) != 1 or task.kernel.fill is not None:
        return _several_results(task)
    call = cast("Callable[..., torch.Tensor]", task.kernel.call)
    match task.operands:
        case (a,):
            return _unary(call, a, task.results[0], task.dead)
        case (a, b):
            return _binary(call, (a, b), task.results[0], task.dead)
        case (a, b, c):
            return _ternary(call, (a, b, c), task.results[0], task.dead)
        case _:
            return _any_arity(call, task)


Target = Callable[[Table], torch.Tensor]
"""Finds a tensor of the caller's in the table and views it in a result's shape."""


def compute_into(
    task: Task, targets: Mapping[str, Target], types: Mapping[str, TensorType]
) -> Instruction:
    """Return the instruction that writes results of a task to tensors of the caller's.

    Args:
        task: The task; its kernel has an `into` or a `fill`.
        targets: Where the named results go.
        types: Type of every value.
    """
    if task.kernel.fill is not None:
        return _fill(task.kernel.fill, task, targets, types)
    into, operands, dead = task.kernel.into, task.operands, task.dead
    (result,) = task.results
    target = targets[result]
    if into is None:
        raise ValueError(f"the kernel of %{result} cannot write into a given tensor")

    def execute(table: Table) -> None:
        out = target(table)
        into(out, *[table[name] for name in operands])
        table[result] = out
        for name in dead:
            del table[name]

    return execute


def compute_pooled(task: Task, types: Mapping[str, TensorType], pool: TensorPool) -> Instruction:
    """Return the instruction that computes a task's results in memory of a pool.

    Results that may be views of an operand are left as they are, unless they had to be copied.

    Args:
        types: Type of every value.
        pool: The memory.
    """
    if task.view_shape is not None:
        return _reshape(task, task.view_shape, types, pool)
    if task.is_view:
        return compute(task)
    places = {name: pooled(types[name], pool, task.orders.get(name)) for name in task.results}
    if task.kernel.fill is not None or task.kernel.into is not None:
        return compute_into(task, places, types)
    call, operands, results, dead = task.kernel.call, task.operands, task.results, task.dead
    make = tuple(places.values())

    def execute(table: Table) -> None:
        # Room is made first: what torch allocates in between is then free again altogether.
        outs = [place(table) for place in make]
        found = call(*[table[name] for name in operands])
        for out, value in zip(outs, found if isinstance(found, tuple) else (found,), strict=True):
            out.copy_(value)
        table.update(zip(results, outs, strict=True))
        for name in dead:
            del table[name]

    return execute


def pooled(type_: TensorType, pool: TensorPool, order: Order | None = None) -> Target:
    """Return what makes room for a result, with its axes in some order in memory."""
    shape, dtype = type_.shape, pool.element_type(type_.dtype)
    if order is None:
        return lambda _table: pool.empty(shape, dtype)
    lying = tuple(shape[axis] for axis in order)
    seen = tuple(order.index(axis) for axis in range(len(order)))
    return lambda _table: pool.empty(lying, dtype).permute(seen)


def _reshape(
    task: Task, shape: tuple[int, ...], types: Mapping[str, TensorType], pool: TensorPool
) -> Instruction:
    (operand,), (result,), dead = task.operands, task.results, task.dead
    place = pooled(types[result], pool)

    def execute(table: Table) -> None:
        value = table[operand]
        try:
            table[result] = value.view(shape)
        except RuntimeError:  # its elements do not lie so that they can be seen in this shape
            out = place(table)
            out.view(value.shape).copy_(value)
            table[result] = out
        for name in dead:
            del table[name]

    return execute


def _fill(
    fill: Callable[[Sequence[torch.Tensor], Sequence[torch.Tensor]], None],
    task: Task,
    targets: Mapping[str, Target],
    types: Mapping[str, TensorType],
) -> Instruction:
    operands, results, dead = task.operands, task.results, task.dead
    places = [targets.get(name) or _fresh(types[name]) for name in results]

    def execute(table: Table) -> None:
        outs = [place(table) for place in places]
        fill(outs, [table[name] for name in operands])
        table.update(zip(results, outs, strict=True))
        for name in dead:
            del table[name]

    return execute


def _fresh(type_: TensorType) -> Target:
    shape, dtype = type_.shape, torch_dtype(type_.dtype)
    return lambda _table: torch.empty(shape, dtype=dtype)


def copy_to(name: str, target: str, *, dead: tuple[str, ...]) -> Instruction:
    """Return the instruction that copies a value to another tensor of the table."""

    def execute(table: Table) -> None:
        table[target].copy_(table[name])
        for dead_name in dead:
            del table[dead_name]

    return execute


def _unary(
    call: Callable[..., torch.Tensor], a: str, result: str, dead: tuple[str, ...]
) -> Instruction:
    def execute(table: Table) -> None:
        table[result] = call(table[a])
        for name in dead:
            del table[name]

    return execute


def _binary(
    call: Callable[..., torch.Tensor],
    operands: tuple[str, str],
    result: str,
    dead: tuple[str, ...],
) -> Instruction:
    a, b = operands

    def execute(table: Table) -> None:
        table[result] = call(table[a], table[b])
        for name in dead:
            del table[name]

    return execute


def _ternary(
    call: Callable[..., torch.Tensor],
    operands: tuple[str, str, str],
    result: str,
    dead: tuple[str, ...],
) -> Instruction:
    a, b, c = operands

    def execute(table: Table) -> None:
        table[result] = call(table[a], table[b], table[c])
        for name in dead:
            del table[name]

    return execute


def _any_arity(call: Callable[..., torch.Tensor], task: Task) -> Instruction:
    operands, dead = task.operands, task.dead
    (result,) = task.results

    def execute(table: Table) -> None:
        table[result] = call(*[table[name] for name in operands])
        for name in dead:
            del table[name]

    return execute


def _several_results(task: Task) -> Instruction:
    call = cast("Callable[..., tuple[torch.Tensor, ...]]", task.kernel.call)
    operands, results, dead = task.operands, task.results, task.dead

    def execute(table: Table) -> None:
        table.update(zip(results, call(*[table[name] for name in operands]), strict=True))
        for name in dead:
            del table[name]

    return execute
