"""A plan's update part, rewritten so that it computes with the non-zeros of sparse weights alone.

Where a value of a weight's family has the weight's shape in the plan, it is here a vector of what
the mask lets through, in row-major order. The mask itself is not read: multiplying by it changes
nothing any more. Loads that are copies of the weight are replaced by the weight.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from appliance.core.ir.graph import Attribute, Node
from appliance.core.ir.tensors import Constant, TensorType
from appliance.core.plans.plan import Commit, LayerStep, Plan, StateTensor, Update
from appliance.core.plans.sparse.families import Context, Family, prove


def on_nonzeros(plan: Plan, counts: Mapping[str, int]) -> Plan:
    """Return the plan as MemoryX runs it; its wafer part is of no use.

    Args:
        plan: A verified plan whose update part has types and attributes.
        counts: How many values the mask of a sparse weight lets through, by value name; others stay
            as they are.

    Raises:
        NotProvenError: A weight's non-zeros alone will not do.
    """
    context = Context.of(plan)
    families = {
        sparse.weight: prove(context, sparse.weight, sparse.mask)
        for sparse in plan.sparse
        if sparse.weight in counts
    }
    copies = {
        name: sparse.weight
        for sparse in plan.sparse
        if sparse.weight in families
        for name in sparse.copies
    }
    return _Rewriting(plan, families, counts, context.readers).run(copies)


class _Rewriting:
    """The rewriting of one plan."""

    def __init__(
        self,
        plan: Plan,
        families: Mapping[str, Family],
        counts: Mapping[str, int],
        readers: Mapping[str, tuple[Node, ...]],
    ) -> None:
        self._plan, self._counts, self._families = plan, counts, families
        self._weight_of = {
            name: weight for weight, family in families.items() for name in family.values
        }
        self._alias = {n: s for family in families.values() for n, s in family.alias.items()}
        self._casts = {name for family in families.values() for name in family.casts}
        self._used_by: dict[str, list[str]] = {}
        for weight, family in families.items():
            for name in family.splats:
                self._used_by.setdefault(name, []).append(weight)
        self._types = dict(plan.types)
        self._readers = readers

    def run(self, copies: Mapping[str, str]) -> Plan:
        plan = self._plan
        for name, weight in self._weight_of.items():
            self._types[name] = self._narrow(weight, name)
        constants = tuple(self._nodes(plan.update_constants))
        updates = tuple(map(self._update, plan.updates))
        return replace(
            plan,
            state=tuple(map(self._state, plan.state)),
            layer_steps=tuple(_loading(step, copies) for step in plan.layer_steps),
            update_constants=constants,
            updates=updates,
            types=self._types,
        )

    def _narrow(self, weight: str, name: str) -> TensorType:
        return TensorType((self._counts[weight],), self._plan.types[name].dtype)

    def _state(self, tensor: StateTensor) -> StateTensor:
        return replace(tensor, type=self._types[tensor.value])

    def _resolve(self, name: str) -> str:
        return self._alias.get(name, name)

    def _update(self, update: Update) -> Update:
        commits = [
            Commit(state=commit.state, value=self._resolve(commit.value))
            for commit in update.commits
        ]
        return replace(
            update,
            nodes=tuple(self._nodes(update.nodes)),
            commits=tuple(c for c in commits if c.state != c.value or c.state not in self._alias),
        )

    def _nodes(self, nodes: tuple[Node, ...]) -> Iterator[Node]:
        for node in nodes:
            (first, *_) = node.results
            if first in self._alias or first in self._casts:
                continue
            if not self._is_of_families_alone(first):
                yield self._node(node, self._weight_of.get(first))
            for weight in self._used_by.get(first, ()):
                yield self._splat(node, weight)

    def _is_of_families_alone(self, name: str) -> bool:
        """Whether a value of equal elements is read by families alone, which get their own."""
        readers = self._readers.get(name, ())
        return name in self._used_by and all(node.results[0] in self._weight_of for node in readers)

    def _node(self, node: Node, weight: str | None) -> Node:
        """Return a node with operands that are there, and results of their narrow types."""
        if weight is None:
            reduced = node.operands and node.operands[0] in self._weight_of
            operands = tuple(map(self._resolve, node.operands))
            return replace(
                node,
                operands=operands,
                attributes=_over_a_vector(node) if reduced else node.attributes,
            )
        splats = self._families[weight].splats
        return replace(
            node,
            operands=tuple(
                _splat_name(name, weight) if name in splats else self._resolve(name)
                for name in node.operands
            ),
            types=tuple(self._types[name] for name in node.results),
        )

    def _splat(self, node: Node, weight: str) -> Node:
        """Return a node that gives as many equal elements as a weight has non-zeros."""
        (name,) = node.results
        type_ = self._narrow(weight, name)
        narrow = _splat_name(name, weight)
        self._types[narrow] = type_
        attributes = dict(node.attributes)
        value = attributes.get("value")
        if isinstance(value, Constant):
            attributes["value"] = Constant(type=type_, data=value.data)
        return replace(node, results=(narrow,), types=(type_,), attributes=attributes)


def _splat_name(name: str, weight: str) -> str:
    return f"{name}@{weight}"


def _over_a_vector(node: Node) -> dict[str, Attribute]:
    """Return the attributes of a reduction over all axes, of which there is one now."""
    axes = "dims" if node.op == "L2Norm" else "dimensions"
    return {**node.attributes, axes: (0,)}


def _loading(step: LayerStep, copies: Mapping[str, str]) -> LayerStep:
    loads = dict.fromkeys(copies.get(name, name) for name in step.loads)
    return replace(step, loads=tuple(loads), nodes=())
