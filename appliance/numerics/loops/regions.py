"""Finds the chains of elementwise nodes that become loops.

Every node gets a *stage*: that of the latest of its inputs if the two may share a loop, else one
more. Nodes of one stage never wait for each other through something else, so any of them may run
together; those that read from each other, over as many elements, do. What has one element only
joins the loop that reads it, or runs with everything else of its kind.
"""

from collections.abc import Collection, Mapping, Sequence

from appliance.core.ir.attributes import text
from appliance.core.ir.graph import Node
from appliance.core.ir.tensors import DType, TensorType
from appliance.numerics.groups import Uses
from appliance.numerics.loops.llvm_text import APPROXIMATE, LOWERINGS, NEVER_ROUNDED, REGISTER_TYPES

_IDENTITIES = frozenset({"BroadcastInDim", "Cast", "Reshape"})
"""Ops that compute nothing, or may do so."""

_TRUTH_OPS = frozenset({"And", "BroadcastInDim", "Cast", "Compare", "Not", "Or", "Reshape", "Xor"})
"""Ops that may have truth values as their first operand; Select has them always."""

_FLOAT_ONLY = frozenset({"Abs", "Ceil", "Div", "Floor", "Reciprocal", "Round", "Rsqrt", "Sqrt"})
_TANH_ONLY = frozenset({"Gelu", "GeluGrad"})
"""Ops whose other form torch computes as fast."""

_INTEGER_ONLY = frozenset({"And", "Not", "Or", "Xor"})

SMALLEST = 2
"""Passes over memory that make a loop worth while."""

MOST_NODES = 250
"""Nodes of a loop. Each brings four tensors at most, and a foreign function takes at most 1,024
arguments; a model of many layers advances more scalars than that in one update."""


def find_regions(
    nodes: Sequence[Node],
    types: Mapping[str, TensorType],
    uses: Uses,
    taken: Collection[int] = (),
) -> list[tuple[int, ...]]:
    """Return the positions of the nodes of each loop.

    Args:
        nodes: The computation, in order.
        types: Type of every value.
        uses: Who reads what.
        taken: Positions of nodes that are to be in no loop.
    """
    return _Finder(nodes, types, uses, taken).run()


class _Finder:
    """One walk over a list of nodes."""

    def __init__(
        self,
        nodes: Sequence[Node],
        types: Mapping[str, TensorType],
        uses: Uses,
        taken: Collection[int],
    ) -> None:
        self._nodes, self._types, self._uses = nodes, types, uses
        self._stage: dict[int, int] = {}
        self._fusible = [at not in taken and self._may_join(node) for at, node in enumerate(nodes)]
        self._parent = list(range(len(nodes)))

    def run(self) -> list[tuple[int, ...]]:
        """Return the positions of the nodes of each loop."""
        for position in range(len(self._nodes)):
            self._stage[position] = self._stage_of(position)
        for position in range(len(self._nodes)):
            self._stage[position] = self._delayed(position)
        for position, node in enumerate(self._nodes):
            if self._fusible[position] and not self._is_single(position):
                for other in self._neighbours(position, node):
                    if not self._is_single(other):
                        self._parent[self._root(position)] = self._root(other)
        loops: dict[tuple[int, int], list[int]] = {}
        owner = self._owners()
        for position in range(len(self._nodes)):
            if self._fusible[position]:
                key = owner.get(position, -1)
                stage = self._stage[position]
                loops.setdefault((stage if key < 0 else -1, key), []).append(position)
        parts = [
            loop[start : start + MOST_NODES]
            for loop in loops.values()
            for start in range(0, len(loop), MOST_NODES)
        ]
        return [tuple(part) for part in parts if self._is_worth_while(part)]

    def _is_worth_while(self, loop: Sequence[int]) -> bool:
        return sum(self._worth(self._nodes[at]) for at in loop) >= SMALLEST

    def _worth(self, node: Node) -> int:
        """Return how many passes over memory torch needs for a node that a loop does in none."""
        source, target = self._types[node.operands[0]].dtype, node.types[0].dtype
        rounds = (
            target.is_half
            and node.op not in NEVER_ROUNDED
            and (node.op != "Cast" or source is not target)
        )
        if node.op in _TANH_ONLY:
            return SMALLEST
        return 2 * rounds or (0 if node.op in _IDENTITIES else 1)

    def _size(self, name: str) -> int:
        return self._types[name].num_elements

    def _is_single(self, position: int) -> bool:
        return self._size(self._nodes[position].results[0]) == 1

    def _may_join(self, node: Node) -> bool:
        if node.op not in LOWERINGS or not node.operands:
            return False
        size = self._size(node.results[0])
        if not size or any(self._size(name) not in (1, size) for name in node.operands):
            return False
        dtypes = [self._types[name].dtype for name in node.operands]
        if not {*dtypes, node.types[0].dtype} <= REGISTER_TYPES.keys():
            return False
        return _has_lowering(node, dtypes)

    def _neighbours(self, position: int, node: Node) -> list[int]:
        """Return the fusible producers of the same stage."""
        found = [self._uses.producers.get(name) for name in node.operands]
        stage = self._stage[position]
        return [
            at for at in found if at is not None and self._fusible[at] and self._stage[at] == stage
        ]

    def _stage_of(self, position: int) -> int:
        stage = 0
        for name in self._nodes[position].operands:
            producer = self._uses.producers.get(name)
            if producer is None:
                continue
            joined = self._fusible[position] and self._fusible[producer]
            joined = joined and self._size(name) in (1, self._size_at(position))
            stage = max(stage, self._stage[producer] + (0 if joined else 1))
        return stage

    def _delayed(self, position: int) -> int:
        """Return the stage of a node that can as well wait for its readers.

        It reads nothing that is computed here, so what it reads is there for as long anyway. Such
        is the mask in the gradient of ReLU, which would else be written and read once more.
        """
        node, stage = self._nodes[position], self._stage[position]
        is_free = self._fusible[position] and not self._is_single(position)
        if not is_free or any(name in self._uses.producers for name in node.operands):
            return stage
        (result,) = node.results
        readers = self._uses.readers.get(result, ())
        stages = {self._stage[at] for at in readers if self._fusible[at]}
        if result in self._uses.live_out or len(stages) != 1:
            return stage
        return stages.pop() if all(self._fusible[at] for at in readers) else stage

    def _size_at(self, position: int) -> int:
        return self._size(self._nodes[position].results[0])

    def _root(self, position: int) -> int:
        while self._parent[position] != position:
            self._parent[position] = self._parent[self._parent[position]]
            position = self._parent[position]
        return position

    def _owners(self) -> dict[int, int]:
        """Return the root of each node's loop; a single element that several read has none."""
        owner: dict[int, int] = {}
        for position in range(len(self._nodes) - 1, -1, -1):
            if not self._fusible[position]:
                continue
            if not self._is_single(position):
                owner[position] = self._root(position)
                continue
            readers = self._uses.readers.get(self._nodes[position].results[0], ())
            same = [at for at in readers if self._fusible[at] and self._is_beside(at, position)]
            owners = {owner.get(at, -1) for at in same}
            if len(owners) == 1 and -1 not in owners:
                owner[position] = owners.pop()
        return owner

    def _is_beside(self, position: int, other: int) -> bool:
        return self._stage[position] == self._stage[other]


def _has_lowering(node: Node, dtypes: Sequence[DType]) -> bool:
    """Return whether the operation is written for operands of these types."""
    first = dtypes[0]
    if node.op in _TANH_ONLY:
        return text(node, "approximation") == "TANH"
    if node.op in _FLOAT_ONLY | APPROXIMATE:
        return first.is_float
    if node.op in _INTEGER_ONLY:
        return not first.is_float
    if node.op == "Compare" and first is DType.I1:
        return text(node, "comparison_direction") in ("EQ", "NE")
    if node.op == "Cast":
        return not (first.is_float and node.types[0].dtype in (DType.I32, DType.I64))
    return first is not DType.I1 or node.op in _TRUTH_OPS or node.op == "Select"
