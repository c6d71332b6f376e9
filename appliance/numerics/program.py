"""A list of nodes made ready to run again and again on a table of values.

Both the CS-2 workers (the nodes of a layer step, narrowed to one system's share of the batch) and
MemoryX (the nodes of an update) run their part of a plan as a `Program`. Building one compiles
every node; running one costs a dictionary access per operand beyond what the kernels take.

Same operands, same bits: kernels never depend on the order in which threads finish. (They may
depend on the *number* of threads, since that decides how a sum is cut.)
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

import torch

from appliance.core.errors import InternalError, WscError
from appliance.core.graph import Node
from appliance.core.ops import ELEMENTWISE
from appliance.core.tensors import TensorType
from appliance.numerics.instructions import (
    Instruction,
    Table,
    Task,
    compute,
    compute_into,
    copy_to,
)
from appliance.numerics.kernels import compile_node
from appliance.numerics.views import SharedMemory, view_as_operand

_STEP = "@step"
"""Name of the training step's number in the table while a program with random nodes runs."""


class Program:
    """Nodes compiled for repeated execution.

    Args:
        nodes: The computation, in order.
        types: Type of every value that the nodes read from outside.
        live_out: Names of the values to keep; everything else is deleted after its last use.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        *,
        types: Mapping[str, TensorType],
        live_out: Collection[str],
    ) -> None:
        self._types = dict(types)
        self._live_out = frozenset(live_out)
        self._constants: Table = {}
        self._nodes: list[Node] = []
        self._tasks: list[Task] = []
        self._shared = SharedMemory()
        self._defined_at: dict[str, int] = {}
        self._linked: dict[frozenset[str], list[tuple[Instruction, Node]]] = {}
        last_use = _last_uses(nodes)
        for index, node in enumerate(nodes):
            dead = tuple(name for name in _mentioned(node) if last_use[name] == index)
            self._add(node, dead)
        self._reads_step = any(task.kernel.reads_step for task in self._tasks)
        self._transient_constants = tuple(self._constants.keys() - self._live_out)

    def _add(self, node: Node, dead: tuple[str, ...]) -> None:
        self._types.update(zip(node.results, node.types, strict=True))
        kernel = compile_node(node, [self._types[name] for name in node.operands])
        if not node.operands and not kernel.reads_step and len(node.results) == 1:
            value = kernel.call()
            assert isinstance(value, torch.Tensor)
            self._constants[node.results[0]] = value
            return
        task = Task(
            kernel=kernel,
            operands=(*node.operands, _STEP) if kernel.reads_step else node.operands,
            results=node.results,
            dead=tuple(
                name for name in dead if name not in self._live_out and name not in self._constants
            ),
        )
        self._defined_at.update(dict.fromkeys(node.results, len(self._tasks)))
        self._shared.add(node)
        self._nodes.append(node)
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
        if index is None or self._tasks[index].kernel.into is None:
            return False
        node = self._nodes[index]
        if node.op not in ELEMENTWISE or node.types[0] != self._types[operand]:
            return False
        if self.borrowers((result, operand)):
            return False
        group = self._shared.group(operand)
        views = {name for name in self._types if self._shared.group(name) == group}
        is_read_later = any(views & set(later.operands) for later in self._nodes[index + 1 :])
        return not is_read_later and views & set(node.operands) <= {operand}

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
            out: Contiguous tensors into which the named values are written. They must not overlap
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
        with torch.no_grad():
            for name in wanted - self._defined_at.keys():
                targets[name].copy_(values[name])
            self._execute(linked, values)
        for name in self._transient_constants:
            del values[name]
        for name in wanted:
            del values[_target(name)]
        if self._reads_step:
            del values[_STEP]

    def _execute(self, linked: list[tuple[Instruction, Node]], values: Table) -> None:
        position = 0
        try:
            for position, (instruction, _) in enumerate(linked):  # noqa: B007 - read on failure
                instruction(values)
        except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
            raise self._failure(linked[position][1], values, error) from error

    def _failure(self, node: Node, values: Table, error: Exception) -> WscError:
        operands = []
        for name in node.operands:
            found = f"{tuple(values[name].shape)}" if name in values else "missing"
            operands.append(f"%{name}: {self._types[name]} (found {found})")
        lines = str(error).splitlines() or [type(error).__name__]
        results = ", ".join(str(type_) for type_ in node.types)
        return InternalError(
            f"{node.op} at {node.location} failed on ({', '.join(operands)}) -> {results}: "
            f"{lines[0]}"
        )

    def _link(self, wanted: frozenset[str]) -> list[tuple[Instruction, Node]]:
        """Return the instructions, and the node of each, for a set of values to be written out."""
        placed: dict[str, Callable[[Table], torch.Tensor]] = {}
        copied = {name for name in wanted if not self._place(name, wanted, placed)}
        linked: list[tuple[Instruction, Node]] = []
        for task, node in zip(self._tasks, self._nodes, strict=True):
            if task.results[0] in placed:
                linked.append((compute_into(task, placed[task.results[0]]), node))
                continue
            to_copy = [name for name in task.results if name in copied]
            dead = tuple(name for name in task.dead if name not in to_copy)
            linked.append((compute(replace(task, dead=dead)), node))
            for name in to_copy:
                dead = (name,) if name in task.dead else ()
                linked.append((copy_to(name, _target(name), dead=dead), node))
        return linked

    def _place(
        self,
        name: str,
        wanted: frozenset[str],
        placed: dict[str, Callable[[Table], torch.Tensor]],
    ) -> bool:
        """Try to have a value, or what it is a view of, computed into the caller's tensor."""
        if self.borrowers((name,)):
            return False
        view: Callable[[torch.Tensor], torch.Tensor] = _identity
        value = name
        while (index := self._defined_at.get(value)) is not None:
            inverse = view_as_operand(self._nodes[index], self._types)
            if inverse is None:
                break
            view = _composed(view, inverse)
            value = self._nodes[index].operands[0]
            if value in wanted or value in placed:
                return False
        if index is None or self._tasks[index].kernel.into is None:
            return False
        target = _target(name)
        placed[value] = lambda table: view(table[target])
        return True


def _identity(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def _composed(
    first: Callable[[torch.Tensor], torch.Tensor], second: Callable[[torch.Tensor], torch.Tensor]
) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda tensor: second(first(tensor))


def _target(name: str) -> str:
    """Return the name under which the caller's tensor for a value is in the table."""
    return f"@out.{name}"


def _mentioned(node: Node) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*node.operands, *node.results)))


def _last_uses(nodes: Sequence[Node]) -> dict[str, int]:
    """Return, for each value, the index of the last node that reads or defines it."""
    return {name: index for index, node in enumerate(nodes) for name in _mentioned(node)}
