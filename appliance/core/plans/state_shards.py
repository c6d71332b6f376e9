"""Which MemoryX shard holds each state tensor and computes each node of the update part.

A weight, its optimizer state, its gradient and everything of that size go together, so no large
value crosses between shards. These *families* are found by uniting a node with those of its
operands that are as large as the largest value it deals with. They are placed largest first on the
shard with the fewest bytes, which balances the shards. Small values remain: those that one shard
needs are computed there; those that several need (global norm, loss scale, rates, counts of steps)
are computed once, so that every shard has the same bits: on the shard that has all their inputs,
and on the home shard if several have.

A small value that is only spread to the size of a tensor (a rate, say) is spread on each shard that
needs it. Everything follows from the plan and the number of shards.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from appliance.core.ir.graph import Node
from appliance.core.plans.plan import Plan

HOME = 0
"""The shard that computes what is made of values of several, and that sends the outputs."""
SMALL_ELEMENTS = 1 << 12
"""Larger values are never sent from shard to shard, outputs apart: 16 KB are a few microseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where state and update part of a plan are.

    Attributes:
        state: Shard of each state tensor, by value name.
        nodes: Shards that run each node of the updates, in the order of the plan.
        totals: Shards that take each sum, by name of the total.
        num_families: Families of tensors that are updated together, so the most shards of use.
        beside_weights: Numbers of the nodes that belong to the family of a tensor.
    """

    state: Mapping[str, int]
    nodes: tuple[frozenset[int], ...]
    totals: Mapping[str, frozenset[int]]
    num_families: int
    beside_weights: frozenset[int]


def place_state(plan: Plan, num_shards: int) -> Placement:
    """Return the placement of a plan on a number of shards; some may get nothing.

    Args:
        plan: A verified plan.
        num_shards: At least 1.
    """
    return _Placer(plan, num_shards).run()


class _Families:
    """Sets of values that stay together, each known by one of them."""

    def __init__(self) -> None:
        self._leaders: dict[str, str] = {}

    def find(self, name: str) -> str:
        """Return the representative of the value's family."""
        leader = name
        while (above := self._leaders.get(leader, leader)) != leader:
            leader = above
        while name != leader:
            self._leaders[name], name = leader, self._leaders.get(name, leader)
        return leader

    def unite(self, one: str, other: str) -> None:
        """Merge two families."""
        first, second = self.find(one), self.find(other)
        if first != second:
            self._leaders[second] = first


class _Placer:
    """Works out one placement. A node is known by the name of its first result."""

    def __init__(self, plan: Plan, num_shards: int) -> None:
        self._plan, self._num_shards = plan, num_shards
        self._nodes = tuple(node for update in plan.updates for node in update.nodes)
        self._producer = {
            name: index for index, node in enumerate(self._nodes) for name in node.results
        }
        self._given = {
            *(tensor.value for tensor in plan.state),
            *(sum_.total for step in plan.layer_steps for sum_ in step.sums),
        }
        self._families = _Families()
        self._shards: dict[str, int] = {}

    def run(self) -> Placement:
        self._unite()
        num_families = self._place_families()
        placed = frozenset(self._shards)
        self._place_others()
        self._join_operands(placed)
        nodes = self._runners()
        return Placement(
            state={
                tensor.value: self._shards[self._families.find(tensor.value)]
                for tensor in self._plan.state
            },
            nodes=nodes,
            totals=self._takers(nodes),
            num_families=num_families,
            beside_weights=frozenset(
                index
                for index, node in enumerate(self._nodes)
                if index not in self._spread and self._families.find(node.results[0]) in placed
            ),
        )

    def _size(self, name: str) -> int:
        return self._plan.types[name].num_elements

    @cached_property
    def _spread(self) -> frozenset[int]:
        """The nodes that make something larger of small values or constants: run where needed.

        What makes a single number of such a value is not one of them, unless it is a constant.
        """
        found: set[int] = set()
        constant: set[int] = set()
        for index, node in enumerate(self._nodes):
            if all(self._is_everywhere(name, constant) for name in node.operands):
                constant.add(index)
            size = max(map(self._size, node.results))
            moved = [name for name in node.operands if not self._is_everywhere(name, found)]
            limit = min(size - 1, SMALL_ELEMENTS)
            is_larger = size > 1 and all(self._size(name) <= limit for name in moved)
            if index in constant or is_larger:
                found.add(index)
        return frozenset(found)

    def _is_everywhere(self, name: str, spread: Iterable[int]) -> bool:
        index = self._producer.get(name)
        return name not in self._given if index is None else index in spread

    def _key(self, name: str) -> str | None:
        """Return by what the maker of a value is known; None if it is made where needed."""
        if self._is_everywhere(name, self._spread):
            return None
        index = self._producer.get(name)
        return name if index is None else self._nodes[index].results[0]

    def _unite(self) -> None:
        for index, node in enumerate(self._nodes):
            if index in self._spread:
                continue
            largest = max(map(self._size, (*node.operands, *node.results)))
            for name in node.operands:
                size, key = self._size(name), self._key(name)
                is_large = size > SMALL_ELEMENTS or 1 < size == largest
                if key is not None and is_large:
                    self._families.unite(key, node.results[0])
        for state, value in self._commits():
            key = self._key(value)
            if key is not None:
                self._families.unite(state, key)

    def _commits(self) -> Iterator[tuple[str, str]]:
        for update in self._plan.updates:
            for commit in update.commits:
                yield commit.state, commit.value

    def _place_families(self) -> int:
        """Place families with tensors larger than scalars, largest first; return their number."""
        num_bytes: defaultdict[str, int] = defaultdict(int)
        for tensor in self._plan.state:
            if tensor.type.num_elements > 1:
                num_bytes[self._families.find(tensor.value)] += tensor.type.num_bytes
        held = [0] * self._num_shards
        for family, size in sorted(num_bytes.items(), key=lambda item: -item[1]):
            shard = held.index(min(held))
            held[shard] += size
            self._shards[family] = shard
        return len(num_bytes)

    def _place_others(self) -> None:
        """Place what is left where it is asked for, if that is one shard; else at home."""
        askers = self._askers()
        asking = {name: {shard} for name, shard in self._shards.items()}
        waiting = list(askers)
        while waiting:
            changed: list[str] = []
            for name in reversed(waiting):
                if name in self._shards:
                    continue
                before = asking.setdefault(name, set())
                after = set().union(*(asking.get(asker, set()) for asker in askers[name]))
                if not after <= before:
                    before |= after
                    changed.append(name)
            waiting = list(askers) if changed else []
        names = [*self._given, *(node.results[0] for node in self._nodes)]
        for name in names:
            family = self._families.find(name)
            shards = asking.get(family, set())
            self._shards.setdefault(family, min(shards) if len(shards) == 1 else HOME)

    def _join_operands(self, placed: frozenset[str]) -> None:
        """Place a node of the home shard where all is that it reads, if that is one shard.

        So what crosses of a tensor is the last number that is made of it alone.
        """
        members = Counter(self._families.find(name) for name in self._given)
        members.update(
            self._families.find(node.results[0])
            for index, node in enumerate(self._nodes)
            if index not in self._spread
        )
        origins: dict[str, frozenset[int]] = {
            tensor.value: frozenset({self._shards[self._families.find(tensor.value)]})
            for tensor in self._plan.state
        }
        for index, node in enumerate(self._nodes):
            found = frozenset[int]().union(
                *(origins.get(name, frozenset()) for name in node.operands)
            )
            family = self._families.find(node.results[0])
            if index not in self._spread:
                is_free = family not in placed and members[family] == 1
                if is_free and self._shards[family] == HOME and len(found) == 1:
                    self._shards[family] = min(found)
                found = frozenset({self._shards[family]})
            origins.update(dict.fromkeys(node.results, found))

    def _askers(self) -> Mapping[str, set[str]]:
        """Return who reads what, by family; a node that spreads a value is one of its own."""
        askers: dict[str, set[str]] = {}
        for index, node in enumerate(self._nodes):
            reader = node.results[0]
            reader = reader if index in self._spread else self._families.find(reader)
            for name in node.operands:
                self._note(askers, name, reader)
        for state, value in self._commits():
            self._note(askers, value, self._families.find(state))
        return askers

    def _note(self, askers: dict[str, set[str]], name: str, reader: str) -> None:
        index, key = self._producer.get(name), self._key(name)
        if key is not None:
            maker = self._families.find(key)
        elif index is not None:
            maker = self._nodes[index].results[0]
        else:  # a constant
            return
        if maker != reader:
            askers.setdefault(maker, set()).add(reader)

    def _runners(self) -> tuple[frozenset[int], ...]:
        """Return the shards that run each node."""
        needed: defaultdict[str, set[int]] = defaultdict(set)
        for state, value in self._commits():
            needed[value].add(self._shards[self._families.find(state)])
        for output in self._plan.outputs:
            needed[output.value].add(HOME)
        found: list[frozenset[int]] = []
        for index in reversed(range(len(self._nodes))):
            node = self._nodes[index]
            if index in self._spread:
                wanted = set[int]().union(*(needed[name] for name in node.results))
                shards = frozenset(wanted or {HOME})
            else:
                shards = frozenset({self._shards[self._families.find(node.results[0])]})
            for name in node.operands:
                needed[name] |= shards
            found.append(shards)
        return tuple(reversed(found))

    def _takers(self, nodes: tuple[frozenset[int], ...]) -> Mapping[str, frozenset[int]]:
        """Return the shards that need each sum; one that nobody computes with is taken at home."""
        found: dict[str, set[int]] = {
            sum_.total: set() for step in self._plan.layer_steps for sum_ in step.sums
        }
        for node, shards in zip(self._nodes, nodes, strict=True):
            _add(found, node, shards)
        for state, value in self._commits():
            if value in found:
                found[value].add(self._shards[self._families.find(state)])
        for output in self._plan.outputs:
            if output.value in found:
                found[output.value].add(HOME)
        return {total: frozenset(shards or {HOME}) for total, shards in found.items()}


def _add(found: Mapping[str, set[int]], node: Node, shards: frozenset[int]) -> None:
    for name in node.operands:
        if name in found:
            found[name] |= shards
