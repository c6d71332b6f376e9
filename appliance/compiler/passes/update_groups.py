"""Pass: cut an update into parts that each finish a few tensors, in the order they are needed next.

With clipping or a loss scale every new weight waits for one global number, so all of them become
computable after the very last sum. Run as one update they would hold up the next step's first layer
until the last layer is updated, and their intermediate results would lie about all at once. So the
update is cut: what several parts need comes first (norms, rates), then one part for each tensor
with the optimizer state that is computed along with it, in the order in which the next step loads
them. A state tensor that another part still reads is overwritten after all of them.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import pairwise

from appliance.core.ir.ops import VIEW_OPS
from appliance.core.ir.tensors import TensorType
from appliance.core.plans.plan import Commit, Update

_SMALL_ELEMENTS = 1 << 16
"""Tensors below are put together with others that are loaded at the same time: a part costs some
microseconds to run, as much as updating a few thousand elements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Uses:
    """What is known of a program beyond one of its updates.

    Attributes:
        types: Type of every value.
        first_load: For each state tensor that is streamed, the first layer step that loads it.
        wanted: Values of the update that are read by others: layer steps, outputs, later updates.
    """

    types: Mapping[str, TensorType]
    first_load: Mapping[str, int]
    wanted: Collection[str]


@dataclass(slots=True)
class _CommitGroup:
    """Commits that are computed together."""

    commits: list[Commit]
    nodes: set[int] = field(default_factory=set)
    """Positions of the nodes that the commits need."""


def split_update(update: Update, uses: Uses) -> tuple[Update, ...]:
    """Return the updates that do what one does, each finishing a few of its tensors.

    Args:
        update: An update in which no state is overwritten before its last read.
        uses: What is known beyond it.
    """
    splitter = _Splitter(update, uses)
    return splitter.run() if len(update.commits) > 1 else (update,)


class _Splitter:
    """Works out which nodes and commits belong together."""

    def __init__(self, update: Update, uses: Uses) -> None:
        self._update, self._uses = update, uses
        self._producer = {
            name: index for index, node in enumerate(update.nodes) for name in node.results
        }

    def run(self) -> tuple[Update, ...]:
        parts = self._folded(self._united(self._parts()))
        common = self._slice(self._uses.wanted)
        counts = [0] * len(self._update.nodes)
        for part in parts:
            for index in part.nodes:
                counts[index] += 1
        common |= {index for index, count in enumerate(counts) if count != 1}
        late = self._read_by_others(parts, common)
        updates = [self._made(common, ())]
        for part in parts:
            commits = [commit for commit in part.commits if commit.state not in late]
            updates.append(self._made(part.nodes - common, commits))
        postponed = [commit for commit in self._update.commits if commit.state in late]
        updates.append(self._made((), postponed))
        return tuple(made for made in updates if made.nodes or made.commits)

    def _made(self, nodes: Iterable[int], commits: Sequence[Commit]) -> Update:
        return Update(
            after=self._update.after,
            nodes=tuple(self._update.nodes[index] for index in sorted(nodes)),
            commits=tuple(commits),
        )

    def _slice(self, roots: Iterable[str]) -> set[int]:
        """Return the nodes of the update that values depend on."""
        found: set[int] = set()
        waiting = list(roots)
        while waiting:
            index = self._producer.get(waiting.pop())
            if index is not None and index not in found:
                found.add(index)
                waiting += self._update.nodes[index].operands
        return found

    def _parts(self) -> list[_CommitGroup]:
        return [
            _CommitGroup([commit], self._slice([commit.value])) for commit in self._update.commits
        ]

    def _united(self, parts: list[_CommitGroup]) -> list[_CommitGroup]:
        """Unite the commits that share a value as large as the largest tensor among them.

        A gradient is as large as the weight and its moments; a rate or the list of all norms is
        not, and what lies beyond them (other weights' gradients) does not count.
        """
        sizes = [self._size(part.commits[0].state) for part in parts]
        users: dict[int, list[int]] = {}
        for number, part in enumerate(parts):
            for index in self._chain(part.commits[0]):
                users.setdefault(index, []).append(number)
        leader = list(range(len(parts)))

        def find(number: int) -> int:
            while leader[number] != number:
                number = leader[number]
            return number

        for index, sharing in users.items():
            if self._node_size(index) != max(sizes[number] for number in sharing):
                continue
            for first, second in pairwise(sharing):
                low, high = sorted((find(first), find(second)))
                leader[high] = low
        return _merged(parts, [find(number) for number in range(len(parts))])

    def _chain(self, commit: Commit) -> set[int]:
        """Return the nodes that a new value is computed by without passing a smaller value."""
        size = self._size(commit.state)
        found: set[int] = set()
        waiting = [commit.value] if size > 1 else []
        while waiting:
            index = self._producer.get(waiting.pop())
            if index is None or index in found:
                continue
            operands = [
                name for name in self._update.nodes[index].operands if self._size(name) >= size
            ]
            if operands:  # else it spreads a smaller value, which any number of tensors may share
                found.add(index)
                waiting += operands
        return found

    def _folded(self, parts: list[_CommitGroup]) -> list[_CommitGroup]:
        """Put small tensors with the same place in the order together, and sort the parts."""
        last = max(self._uses.first_load.values(), default=0) + 1
        ranks = [
            min(self._uses.first_load.get(commit.state, last) for commit in part.commits)
            for part in parts
        ]
        fold: dict[int, int] = {}
        keys: list[int] = []
        for number, part in enumerate(parts):
            is_small = all(self._size(commit.state) < _SMALL_ELEMENTS for commit in part.commits)
            keys.append(fold.setdefault(ranks[number], number) if is_small else number)
        rank_of = dict(zip(keys, ranks, strict=True))
        merged = zip(dict.fromkeys(keys), _merged(parts, keys), strict=True)
        return [part for _, part in sorted(merged, key=lambda item: (rank_of[item[0]], item[0]))]

    def _read_by_others(self, parts: Sequence[_CommitGroup], common: Set[int]) -> frozenset[str]:
        """Return the state that a part overwrites while a later one still reads the old value."""
        memory = {commit.state: commit.state for commit in self._update.commits}
        readers: dict[str, set[int]] = {state: set() for state in memory}
        owner = {
            index: number
            for number, part in enumerate(parts)
            for index in part.nodes
            if index not in common
        }
        for index, node in enumerate(self._update.nodes):
            for name in node.operands:
                if name in memory and index in owner:
                    readers[memory[name]].add(owner[index])
            if node.op in VIEW_OPS and node.operands and node.operands[0] in memory:
                memory.update(dict.fromkeys(node.results, memory[node.operands[0]]))
        return frozenset(
            commit.state
            for number, part in enumerate(parts)
            for commit in part.commits
            if any(reader > number for reader in readers[commit.state])
        )

    def _size(self, name: str) -> int:
        return self._uses.types[name].num_elements

    def _node_size(self, index: int) -> int:
        return max(type_.num_elements for type_ in self._update.nodes[index].types)


def _merged(parts: Sequence[_CommitGroup], keys: Sequence[int]) -> list[_CommitGroup]:
    """Return the parts with those of equal key made one, in order of first appearance."""
    found: dict[int, _CommitGroup] = {}
    for key, part in zip(keys, parts, strict=True):
        into = found.setdefault(key, _CommitGroup([]))
        into.commits += part.commits
        into.nodes |= part.nodes
    return list(found.values())
