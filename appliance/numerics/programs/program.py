"""A list of nodes made ready to run again and again on a table of values.

Both the CS-2 workers (the nodes of a layer step, narrowed to one system's share of the batch) and
MemoryX (the nodes of an update) run their part of a plan as a `Program`. Building one compiles
every node; running one costs a dictionary access per operand beyond what the kernels take.

Same operands, same bits: kernels never depend on the order in which threads finish. (They may
depend on the *number* of threads, since that decides how a sum is cut.)
"""

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

import torch

from appliance.core.errors import InternalError, WscError
from appliance.core.ir.graph import Node
from appliance.core.ir.ops import ELEMENTWISE
from appliance.core.ir.tensors import TensorType
from appliance.numerics.devices import to_device
from appliance.numerics.groups import Group
from appliance.numerics.kernels import Kernel
from appliance.numerics.memory_layout import memory_orders
from appliance.numerics.programs.grouping import group_nodes, single_group
from appliance.numerics.programs.node_closures import (
    Instruction,
    Table,
    Target,
    Task,
    compute,
    compute_into,
    compute_pooled,
    copy_to,
    pooled,
)
from appliance.numerics.programs.pool import TensorPool
from appliance.numerics.programs.views import SharedMemory, may_share_memory, view_as_operand
from appliance.numerics.sparse.weight_products import part_types

_STEP = "@step"
"""Name of the training step's number in the table while a program with random nodes runs."""


class Program:
    """Nodes compiled for repeated execution.

    Args:
        nodes: The computation, in order.
        types: Type of every value that the nodes read from outside.
        live_out: Names of the values to keep; everything else is deleted after its last use.
        known: Values from outside that are the same tensors in every run.
        written: Names of the values, beyond those in `live_out`, that `run` may be asked to write
            to given tensors.
        pool: Where results are computed, and how bfloat16 values lie there; None leaves that to
            torch.
        device: Where it runs, and where `known` and all values from outside are; None is the
            processor. Elsewhere there is no pool.
        sparse: Weights from outside that come as their non-zeros, under the names of
            `weight_products.parts_of`; every node that reads one `reads_sparse`.
        gradients: Results that are wanted at the pattern of such a weight, by the weight; each is
            in `written`, always written to a given tensor and read by no node.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        *,
        types: Mapping[str, TensorType],
        live_out: Collection[str],
        known: Mapping[str, torch.Tensor] | None = None,
        written: Collection[str] = (),
        pool: TensorPool | None = None,
        device: torch.device | None = None,
        sparse: Collection[str] = (),
        gradients: Mapping[str, str] | None = None,
    ) -> None:
        if device is not None and pool is not None:
            raise ValueError(f"a pool is memory of the processor, and the program runs on {device}")
        self._pool, self._device = pool, device
        self._types = dict(types)
        for node in nodes:
            self._types.update(zip(node.results, node.types, strict=True))
        self._live_out = frozenset(live_out)
        self._shared = SharedMemory()
        with self._as_default():
            constants, rest = _split_constants(nodes, self._types, device)
            known = {**(known or {}), **constants}
            kept = self._live_out | frozenset(written)
            groups = group_nodes(
                rest,
                self._types,
                known,
                kept,
                device=device,
                sparse=sparse,
                gradients=gradients,
                is_narrow=pool is not None and pool.is_narrow,
            )
        self._types.update(part_types({*sparse, *(gradients or {}).values()}, self._types))
        self._groups = groups
        self._orders = {} if pool is None else memory_orders(groups, self._types)
        read = {name for group in groups for name in group.operands}
        self._constants: Table = {
            name: value
            for name, value in constants.items()
            if name in read or name in self._live_out or name in written
        }
        self._tasks: list[Task] = []
        self._defined_at: dict[str, int] = {}
        self._linked: dict[frozenset[str], list[tuple[Instruction, Group]]] = {}
        last_use = _last_uses(groups)
        for index, group in enumerate(groups):
            dead = tuple(name for name in _mentioned(group) if last_use[name] == index)
            self._add(group, dead)
        operands = {name for node in nodes for name in node.operands}
        # What went into a group as a number that never changes.
        self._unread = tuple((operands & types.keys()) - read - self._live_out)
        self._reads_step = any(task.kernel.reads_step for task in self._tasks)
        self._transient_constants = tuple(self._constants.keys() - self._live_out)

    def _add(self, group: Group, dead: tuple[str, ...]) -> None:
        kernel = group.kernel
        task = Task(
            kernel=kernel,
            operands=(*group.operands, _STEP) if kernel.reads_step else group.operands,
            results=group.results,
            dead=tuple(
                name for name in dead if name not in self._live_out and name not in self._constants
            ),
            is_view=not group.memory_of_its_own and any(map(may_share_memory, group.nodes)),
            view_shape=group.types[0].shape if _is_reshape(group) else None,
            orders={n: self._orders[n] for n in group.results if n in self._orders},
        )
        self._defined_at.update(dict.fromkeys(group.results, len(self._tasks)))
        if not group.memory_of_its_own:
            for node in group.nodes:
                self._shared.add(node)
        self._tasks.append(task)

    def borrowers(self, names: Collection[str]) -> frozenset[str]:
        """Return the live-out values that may be views of the named values.

        Whoever reuses the memory of a value has to copy its borrowers first.
        """
        groups = {self._shared.group(name) for name in names}
        return frozenset(name for name in self._live_out if self._shared.group(name) in groups)

    def may_overwrite(self, result: str, operand: str) -> bool:
        """Return whether `out[result]` may be the very memory of `operand`, as in `w = w - d`.

        It may if the result is computed element by element, if nothing reads the operand (or a view
        of it) afterwards, and if neither of the two, nor a view of them, lives out.
        """
        index = self._defined_at.get(result)
        if index is None or not _can_write(self._tasks[index].kernel):
            return False
        group = self._groups[index]
        if not {result, operand} <= _elementwise(group):
            return False
        if self._types[result] != self._types[operand] or self.borrowers((result, operand)):
            return False
        root = self._shared.group(operand)
        views = {name for name in self._types if self._shared.group(name) == root}
        is_read_later = any(views & set(later.operands) for later in self._groups[index + 1 :])
        return not is_read_later and views & set(group.operands) <= {operand}

    def run(
        self,
        values: Table,
        *,
        step: int,
        out: Mapping[str, torch.Tensor] | None = None,
    ) -> None:
        """Execute the nodes on a table of values.

        Every value whose last use is here and that is not in `live_out` is deleted from the table,
        the ones that came from outside included. Results may be views of one another or of what
        came from outside (see `borrowers`), and need not be contiguous.

        Args:
            values: By name, every value the nodes read from outside; receives the results.
            step: Number of the training step, for random operations.
            out: Contiguous tensors into which the named values are written, each of them in
                `live_out` or `written`. They must not overlap
                anything that the program reads, unless `may_overwrite` allows it. A value that
                is in `live_out` too, or of which a live-out value is a view, stays in the table in
                memory of its own, at the price of a copy; any other is deleted from it like every
                value.

        Raises:
            InternalError: A kernel failed; the message names node, shapes and place.
        """
        targets = out or {}
        wanted = frozenset(targets)
        linked = self._linked.get(wanted)
        if linked is None:
            linked = self._linked.setdefault(wanted, self._link(wanted))
        values.update(self._constants)
        values.update({_target(name): tensor for name, tensor in targets.items()})
        if self._reads_step:
            values[_STEP] = torch.tensor(step)
        with torch.no_grad(), self._as_default():
            for name in wanted - self._defined_at.keys():
                targets[name].copy_(values[name])
            self._execute(linked, values)
        for name in self._transient_constants:
            del values[name]
        for name in self._unread:
            values.pop(name, None)
        for name in wanted:
            del values[_target(name)]
        if self._reads_step:
            del values[_STEP]

    def _as_default(self) -> contextlib.AbstractContextManager[object]:
        """Return a context in which torch makes tensors where this runs."""
        return contextlib.nullcontext() if self._device is None else self._device

    def _execute(self, linked: list[tuple[Instruction, Group]], values: Table) -> None:
        position = 0
        try:
            for position, (instruction, _) in enumerate(linked):  # noqa: B007 - read on failure
                instruction(values)
        except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
            raise self._failure(linked[position][1], values, error) from error

    def _failure(self, group: Group, values: Table, error: Exception) -> WscError:
        operands = []
        for name in group.operands:
            found = f"{tuple(values[name].shape)}" if name in values else "missing"
            operands.append(f"%{name}: {self._types[name]} (found {found})")
        lines = str(error).splitlines() or [type(error).__name__]
        results = ", ".join(str(type_) for type_ in group.types)
        return InternalError(
            f"{group.title} failed on ({', '.join(operands)}) -> {results}: {lines[0]}"
        )

    def _link(self, wanted: frozenset[str]) -> list[tuple[Instruction, Group]]:
        """Return the instructions, and the group of each, for a set of values to be written out."""
        placed: dict[str, Target] = {}
        copied = {name for name in wanted if not self._place(name, wanted, placed)}
        linked: list[tuple[Instruction, Group]] = []
        for task, node in zip(self._tasks, self._groups, strict=True):
            targets = {name: placed[name] for name in task.results if name in placed}
            if targets and self._pool is not None:
                fresh = {
                    name: pooled(self._types[name], self._pool, task.orders.get(name))
                    for name in task.results
                }
                targets = {**fresh, **targets}
            to_copy = [name for name in task.results if name in copied]
            dead = tuple(name for name in task.dead if name not in to_copy)
            linked.append((self._compute(replace(task, dead=dead), targets), node))
            for name in to_copy:
                dead = (name,) if name in task.dead else ()
                linked.append((copy_to(name, _target(name), dead=dead), node))
        return linked

    def _compute(self, task: Task, targets: Mapping[str, Target]) -> Instruction:
        if targets:
            return compute_into(task, targets, self._types)
        if self._pool is None:
            return compute(task)
        return compute_pooled(task, self._types, self._pool)

    def _place(
        self,
        name: str,
        wanted: frozenset[str],
        placed: dict[str, Target],
    ) -> bool:
        """Try to have a value, or what it is a view of, computed into the caller's tensor."""
        if self.borrowers((name,)):
            return False
        view: Callable[[torch.Tensor], torch.Tensor] = _identity
        value = name
        while (index := self._defined_at.get(value)) is not None:
            inverse = _inverse(self._groups[index], self._types)
            if inverse is None:
                break
            view = _composed(view, inverse)
            value = self._groups[index].operands[0]
            if value in wanted or value in placed:
                return False
        if index is None or not _can_write(self._tasks[index].kernel):
            return False
        target = _target(name)
        placed[value] = lambda table: view(table[target])
        return True


def compute_once(nodes: Sequence[Node]) -> Table:
    """Return the results of nodes that read nothing but one another, computed node by node.

    Unlike a program this compiles nothing, and it keeps every result.

    Args:
        nodes: The computation, in order; none of them reads the step's number.
    """
    types: dict[str, TensorType] = {}
    table: Table = {}
    for node in nodes:
        types.update(zip(node.results, node.types, strict=True))
        found = single_group(node, types).kernel.call(*[table[name] for name in node.operands])
        values = found if isinstance(found, tuple) else (found,)
        table.update(zip(node.results, values, strict=True))
    return table


def _identity(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def _composed(
    first: Callable[[torch.Tensor], torch.Tensor], second: Callable[[torch.Tensor], torch.Tensor]
) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda tensor: second(first(tensor))


def _target(name: str) -> str:
    """Return the name under which the caller's tensor for a value is in the table."""
    return f"@out.{name}"


def _split_constants(
    nodes: Sequence[Node], types: Mapping[str, TensorType], device: torch.device | None
) -> tuple[Table, list[Node]]:
    """Compute what depends on nothing; return it, and the other nodes."""
    constants: Table = {}
    rest: list[Node] = []
    for node in nodes:
        kernel = None if node.operands else single_group(node, types).kernel
        if kernel is None or kernel.reads_step or len(node.results) != 1:
            rest.append(node)
            continue
        value = kernel.call()
        assert isinstance(value, torch.Tensor)
        constants[node.results[0]] = value if device is None else to_device(value, device)
    return constants, rest


def _is_reshape(group: Group) -> bool:
    return len(group.nodes) == 1 and group.nodes[0].op == "Reshape"


def _can_write(kernel: Kernel) -> bool:
    return kernel.into is not None or kernel.fill is not None


def _elementwise(group: Group) -> frozenset[str]:
    """Return the operands and results of a group whose elements meet at the same place only."""
    if len(group.nodes) == 1 and group.nodes[0].op in ELEMENTWISE:
        return frozenset((*group.operands, *group.results))
    return group.elementwise


def _inverse(
    group: Group, types: Mapping[str, TensorType]
) -> Callable[[torch.Tensor], torch.Tensor] | None:
    if len(group.nodes) != 1 or group.memory_of_its_own:
        return None
    return view_as_operand(group.nodes[0], types)


def _mentioned(group: Group) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*group.operands, *group.results)))


def _last_uses(groups: Sequence[Group]) -> dict[str, int]:
    """Return, for each value, the index of the last group that reads or defines it."""
    last: dict[str, int] = {}
    for index, group in enumerate(groups):
        last.update(dict.fromkeys(_mentioned(group), index))
    return last
