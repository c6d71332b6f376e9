"""Runs a plan's update part on the store: arrivals of sums, updates, commits in place.

One table holds the values of the current step. State tensors are in it as views of the store, so a
commit overwrites them in place; whatever outlives its update and may be a view of memory that is
about to be reused (a state tensor, a slot of the sums ring) is copied first.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from appliance.core.ir.graph import Node
from appliance.core.plans.plan import STEP_START, Commit, Plan, Precision, Update
from appliance.core.plans.sparse.kept_masks import kept_masks, spread_scalars
from appliance.numerics.float_formats import round_to
from appliance.numerics.programs.program import Program
from appliance.streams.torch_views import Tensors


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """One update, ready to run.

    Attributes:
        program: Its nodes.
        loads: Results that layer steps load; written straight into the store.
        in_place: New values of state that are computed over the old ones.
        to_copy: Results that outlive the update but may be views of memory that is reused.
        commits: State to overwrite, with the names of the new values.
        outputs: Output names with the names of the results they show.
        dead: Values that nobody reads once the commits are done.
    """

    program: Program
    loads: Tensors
    in_place: Tensors
    to_copy: tuple[str, ...]
    commits: tuple[Commit, ...]
    outputs: tuple[tuple[str, str], ...]
    dead: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shortcut:
    """How an update runs in steps that take no new mask.

    Attributes:
        deciding: Computes the conditions.
        conditions: Values, each of equal elements, of which none is true in such a step.
        step: The update then.
    """

    deciding: Program
    conditions: tuple[str, ...]
    step: _Step

    def is_taken(self, table: Tensors, step: int) -> bool:
        """Return whether a step takes no new mask; the table is left as it is."""
        values = dict(table)
        self.deciding.run(values, step=step)
        return not any(bool(values[name].reshape(-1)[0]) for name in self.conditions)


class Updates:
    """The update part of a plan, made ready to run.

    Args:
        plan: A verified plan.
        state: State tensors in the store, by value name.
        computed: Computed loads in the store, by value name.
        deferred_sums: Where to keep the sums that an update needs after a later layer step.
        sent: For each update, the values that `values` is asked for after it.
        gathers: What makes of a sum, by the name of the total, the vector that the plan knows.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        state: Tensors,
        computed: Tensors,
        deferred_sums: Tensors,
        sent: Mapping[int, Sequence[str]] = {},
        gathers: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = {},
    ) -> None:
        self._plan, self._state, self._computed = plan, state, computed
        self._deferred_sums, self._gathers = deferred_sums, gathers
        self._constants: Tensors = {}
        self._constants = self._run_constants()
        self._lasting = state.keys() | self._constants.keys()
        self._read_later = _names_read_after(plan, sent)
        self._spread = spread_scalars(plan)
        self._updates = tuple(map(self._prepare, plan.updates, self._read_later))
        self._shortcuts = tuple(map(self._shortcut, plan.updates, self._read_later))
        self._early_outputs = self._outputs_of({*state, *self._constants})
        self._arrival_outputs = tuple(
            self._outputs_of({sum_.total for sum_ in step.sums}) for step in plan.layer_steps
        )
        self._table: Tensors = {}
        self._outputs: Mapping[str, torch.Tensor] = {}
        self._step = 0

    def begin(self, step: int, outputs: Mapping[str, torch.Tensor]) -> None:
        """Begin a step.

        Args:
            step: Its number, for random operations.
            outputs: Where to write the outputs as they become available, by output name; empty when
                the step keeps none.
        """
        self._step, self._outputs = step, outputs
        self._table = {**self._state, **self._constants}
        self._show(self._early_outputs)

    def arrive(self, layer_step: int, sums: Tensors) -> None:
        """Take in a layer step's sums; they may be reused after the updates that follow at once."""
        if self._plan.precision is Precision.EXACT:
            self._round(sums)
        for name, arrived in sums.items():
            gather = self._gathers.get(name)
            tensor = arrived if gather is None else gather(arrived)
            if name in self._computed:
                self._computed[name].copy_(tensor)
            kept = self._deferred_sums.get(name)
            self._table[name] = tensor if kept is None else kept.copy_(tensor)
        self._show(self._arrival_outputs[layer_step])

    def depart(self, layer_step: int) -> None:
        """Forget a layer step's sums."""
        for sum_ in self._plan.layer_steps[layer_step].sums:
            if sum_.total not in self._deferred_sums:
                self._table.pop(sum_.total, None)

    def run(self, index: int) -> None:
        """Run one update and commit its results."""
        update, table = self._chosen(index), self._table
        update.program.run(table, step=self._step, out={**update.loads, **update.in_place})
        for name in update.to_copy:
            table[name] = table[name].clone()
        self._show(update.outputs)
        for commit in update.commits:
            self._state[commit.state].copy_(table[commit.value])
        for name in update.dead:
            table.pop(name, None)

    def _chosen(self, index: int) -> _Step:
        """Return how an update runs in this step."""
        shortcut = self._shortcuts[index]
        if shortcut is not None and shortcut.is_taken(self._table, self._step):
            return shortcut.step
        return self._updates[index]

    def take(self, values: Tensors) -> None:
        """Take in values that another shard has computed; they are not copied."""
        self._table.update(values)
        self._show(self._outputs_of(set(values)))

    def values(self, names: Sequence[str]) -> tuple[torch.Tensor, ...]:
        """Return values of the step as they are now."""
        return tuple(self._table[name] for name in names)

    def _show(self, outputs: tuple[tuple[str, str], ...]) -> None:
        if self._outputs:
            for output_name, value in outputs:
                self._outputs[output_name].copy_(self._table[value])

    def _round(self, sums: Tensors) -> None:
        for name, tensor in sums.items():
            dtype = self._plan.types[name].dtype
            if dtype.is_half:
                tensor.copy_(round_to(dtype, tensor))

    def _run_constants(self) -> Tensors:
        names = {name for node in self._plan.update_constants for name in node.results}
        table: Tensors = {}
        self._program(self._plan.update_constants, names).run(table, step=0)
        for name in names & self._computed.keys():
            self._computed[name].copy_(table[name])
        return table

    def _shortcut(self, update: Update, later: frozenset[str]) -> _Shortcut | None:
        """Return how an update runs in steps that take no new mask; None if always alike."""
        results = {name for node in update.nodes for name in node.results}
        shown = {value for _, value in self._outputs_of(results)}
        kept = kept_masks(
            update,
            read_later=later | shown | self._computed.keys(),
            types=self._plan.types,
            spread=self._spread,
        )
        if kept is None:
            return None
        step = self._prepare(kept.update, later)
        unread = _operands(update.nodes) - _operands(kept.update.nodes) - later - results
        return _Shortcut(
            deciding=self._program(kept.deciding, kept.conditions),
            conditions=kept.conditions,
            step=replace(step, dead=tuple(sorted({*step.dead, *unread} - self._lasting))),
        )

    def _prepare(self, update: Update, later: frozenset[str]) -> _Step:
        results = {name for node in update.nodes for name in node.results}
        outputs = self._outputs_of(results)
        shown = {value for _, value in outputs}
        committed = {commit.value for commit in update.commits}
        named = results | _operands(update.nodes) | committed
        overwriting = self._overwriting(update, later | shown)
        program, in_place = self._program_in_place(
            update.nodes, frozenset((later | committed | shown) & named), overwriting
        )
        reused = {*self._state, *self._sums_of(update.after)}
        swapped = {
            commit.value
            for commit in update.commits
            if commit.value in self._state and commit.value != commit.state
        }
        outliving = (later | committed) & results
        return _Step(
            program=program,
            loads={name: self._computed[name] for name in results & self._computed.keys()},
            in_place=in_place,
            to_copy=tuple(sorted((program.borrowers(reused) & outliving) | swapped)),
            commits=tuple(
                commit for commit in update.commits if commit.value not in (commit.state, *in_place)
            ),
            outputs=outputs,
            dead=tuple(sorted((committed | shown) - later - self._state.keys())),
        )

    def _overwriting(self, update: Update, kept: Collection[str]) -> dict[str, str]:
        """Return the new values that nobody asks for but one commit, with the state they are of."""
        values = [commit.value for commit in update.commits]
        results = {name for node in update.nodes for name in node.results}
        return {
            commit.value: commit.state
            for commit in update.commits
            if commit.value in results - self._computed.keys()
            and commit.value not in kept
            and values.count(commit.value) == 1
        }

    def _program_in_place(
        self, nodes: tuple[Node, ...], live_out: frozenset[str], overwriting: Mapping[str, str]
    ) -> tuple[Program, Tensors]:
        """Return the program of an update, and where it computes new state over the old."""
        targets = dict(overwriting)
        while True:
            written = self._computed.keys() | targets.keys()
            program = self._program(nodes, live_out - targets.keys(), written)
            refused = {
                value for value, state in targets.items() if not program.may_overwrite(value, state)
            }
            if not refused:
                return program, {value: self._state[state] for value, state in targets.items()}
            targets = {v: state for v, state in targets.items() if v not in refused}

    def _program(
        self, nodes: tuple[Node, ...], live_out: Collection[str], written: Collection[str] = ()
    ) -> Program:
        types = {name: self._plan.types[name] for name in _operands(nodes)}
        return Program(
            nodes, types=types, live_out=live_out, known=self._constants, written=written
        )

    def _outputs_of(self, values: set[str]) -> tuple[tuple[str, str], ...]:
        return tuple(
            (output.output_name, output.value)
            for output in self._plan.outputs
            if output.value in values
        )

    def _sums_of(self, layer_step: int) -> tuple[str, ...]:
        if layer_step == STEP_START:
            return ()
        return tuple(sum_.total for sum_ in self._plan.layer_steps[layer_step].sums)


def _operands(nodes: tuple[Node, ...]) -> set[str]:
    return {name for node in nodes for name in node.operands}


def _names_read_after(plan: Plan, sent: Mapping[int, Sequence[str]]) -> tuple[frozenset[str], ...]:
    """Return, for each update, the values that are sent after it or that later ones use."""
    later: list[frozenset[str]] = []
    read: frozenset[str] = frozenset()
    for index in reversed(range(len(plan.updates))):
        update = plan.updates[index]
        read |= frozenset(sent.get(index, ()))
        later.append(read)
        read |= _operands(update.nodes) | {commit.value for commit in update.commits}
    return tuple(reversed(later))
