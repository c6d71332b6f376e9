"""Pass: order what MemoryX computes, and place the overwriting of state.

A node that needs sums runs as soon as they are there. A node that needs only state could run when
the step begins, but its result would then lie about, as large as the state itself, until the sums
come that it is combined with; so it runs just before it is first needed. A state tensor is
overwritten once its new value exists and nothing reads the old one any more, be it directly,
through a view, or by streaming it to the wafer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from appliance.compiler.passes.partition import Partition
from appliance.compiler.passes.rewriting import Names, constant_values, simple_node
from appliance.compiler.passes.update_groups import Uses, split_update
from appliance.core.ir.graph import UNKNOWN_LOCATION, Graph, Node, needed_nodes
from appliance.core.ir.ops import VIEW_OPS
from appliance.core.plans.plan import STEP_START, Commit, Update


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateProgram:
    """MemoryX's part.

    Attributes:
        constants: Nodes that depend on constants only.
        updates: The rest, by the layer step after which it runs, and the commits.
        outputs: Name of the value of each output, by position among the graph's outputs.
        copies: For each value that had to be copied, the value it has the type of.
    """

    constants: tuple[Node, ...]
    updates: tuple[Update, ...]
    outputs: tuple[str, ...]
    copies: Mapping[str, str]


def order_updates(graph: Graph, parts: Partition) -> UpdateProgram:
    """Order the update part of a partitioned graph.

    Args:
        graph: The sharded graph; its results say what is committed and what goes out.
    """
    return _Orderer(graph, parts).run()


class _Orderer:
    """Works out what is needed, when it runs, and when state may be overwritten."""

    def __init__(self, graph: Graph, parts: Partition) -> None:
        self._graph = graph
        self._parts = parts
        self._types = graph.types()
        self._names = Names([*self._types, *parts.types])
        self._available = dict(parts.available)
        self._nodes = list(parts.update_nodes)
        self._producers = {name: node for node in self._nodes for name in node.results}
        self._states = {a.name for a in graph.arguments if a.resource_name is not None}
        self._copies: dict[str, str] = {}
        self._outputs: tuple[str, ...] = ()

    def run(self) -> UpdateProgram:
        self._outputs = tuple(
            self._detached(result.value)
            for result in self._graph.results
            if result.output_name is not None
        )
        new_values = self._new_values()
        needed = needed_nodes(
            self._nodes, [*self._outputs, *new_values.values(), *self._parts.loaded]
        )
        constant = constant_values(self._parts.update_nodes)
        constants = tuple(node for node in needed if constant.issuperset(node.results))
        running = [node for node in needed if not constant.issuperset(node.results)]
        self._defer(running)
        return UpdateProgram(
            constants=constants,
            updates=self._updates(running, new_values),
            outputs=self._outputs,
            copies=self._copies,
        )

    def _state_behind(self, name: str) -> str | None:
        """Return the state tensor whose memory a value may share."""
        while name not in self._states:
            node = self._producers.get(name)
            if node is None or node.op not in VIEW_OPS:
                return None
            name = node.operands[0]
        return name

    def _detached(self, name: str) -> str:
        """Return a value that stays as it is when state is overwritten."""
        if self._state_behind(name) is None:
            return name
        copy = self._names.fresh(f"{name}.copy")
        self._nodes.append(
            simple_node("wsc.Copy", (name,), copy, self._types[name], location=UNKNOWN_LOCATION)
        )
        self._available[copy] = self._available[name]
        self._copies[copy] = name
        return copy

    def _new_values(self) -> dict[str, str]:
        """Return the new value of each state tensor that changes; each has memory of its own."""
        found: dict[str, str] = {}
        for argument in self._graph.arguments:
            if argument.aliased_result is None:
                continue
            value = self._graph.results[argument.aliased_result].value
            if value == argument.name:
                continue
            found[argument.name] = self._detached(value)
        return found

    def _defer(self, nodes: Sequence[Node]) -> None:
        """Let nodes that wait for nothing run together with the first node that uses them."""
        first_use: dict[str, int] = dict.fromkeys(self._parts.loaded, STEP_START)
        for node in reversed(nodes):
            runs = self._available[node.results[0]]
            uses = [first_use[name] for name in node.results if name in first_use]
            if runs == STEP_START and uses:
                runs = min(uses)
                self._available.update(dict.fromkeys(node.results, runs))
            for name in node.operands:
                first_use[name] = min(runs, first_use.get(name, runs))

    def _updates(self, nodes: Sequence[Node], new_values: Mapping[str, str]) -> tuple[Update, ...]:
        by_step: dict[int, list[Node]] = {}
        for node in nodes:
            by_step.setdefault(self._available[node.results[0]], []).append(node)
        commits: dict[int, list[Commit]] = {}
        last_use = self._last_uses(nodes)
        for state, value in new_values.items():
            after = max(self._available.get(value, STEP_START), last_use.get(state, STEP_START))
            commits.setdefault(after, []).append(Commit(state=state, value=value))
        whole = [
            Update(
                after=after,
                nodes=tuple(by_step.get(after, ())),
                commits=tuple(commits.get(after, ())),
            )
            for after in sorted({*by_step, *commits})
        ]
        return self._split(whole)

    def _split(self, updates: Sequence[Update]) -> tuple[Update, ...]:
        """Return the updates cut into parts; see `split_update`."""
        wanted = {*self._parts.loaded, *self._outputs}
        first_load: dict[str, int] = {}
        for index, step in enumerate(self._parts.steps):
            for name in step.loads:
                first_load.setdefault(name, index)
        found: list[Update] = []
        for update in reversed(updates):
            uses = Uses(types=self._types, first_load=first_load, wanted=frozenset(wanted))
            found += reversed(split_update(update, uses))
            wanted.update(name for node in update.nodes for name in node.operands)
            wanted.update(commit.value for commit in update.commits)
        return tuple(reversed(found))

    def _last_uses(self, nodes: Sequence[Node]) -> dict[str, int]:
        """Return, for each state tensor, the last layer step that still needs its old value."""
        memory: dict[str, str] = {state: state for state in self._states}
        last: dict[str, int] = {}

        def used(name: str, step: int) -> None:
            state = memory.get(name)
            if state is not None:
                last[state] = max(last.get(state, STEP_START), step)

        for node in nodes:
            for name in node.operands:
                used(name, self._available[node.results[0]])
            if node.op in VIEW_OPS and node.operands and node.operands[0] in memory:
                memory.update(dict.fromkeys(node.results, memory[node.operands[0]]))
        for name, step in self._parts.loaded.items():
            used(name, step)
        return last
