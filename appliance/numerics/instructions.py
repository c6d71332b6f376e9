"""Nodes as closures over a table of values: one call per operation and nothing decided there.

An instruction reads its operands from the table, runs the kernel, stores the results and deletes
what nobody reads any more. Whatever is known when a program is built (arity, names, whether a
result goes to a tensor of the caller's) is worked out then.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import torch

from appliance.core.tensors import TensorType
from appliance.numerics.elements import torch_dtype
from appliance.numerics.kernels import Kernel

Table = dict[str, torch.Tensor]
Instruction = Callable[[Table], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A node with what a program knows about it.

    Attributes:
        kernel: Its kernel.
        operands: Names of the values the kernel is called with.
        results: Names of its results.
        dead: Names of the values to delete afterwards.
    """

    kernel: Kernel
    operands: tuple[str, ...]
    results: tuple[str, ...]
    dead: tuple[str, ...]


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
