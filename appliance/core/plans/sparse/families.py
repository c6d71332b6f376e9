"""What the update part does with a weight and its mask: a proof that non-zeros alone will do.

The *family* of a weight are the values of its shape that depend on it. Where all of them are
computed element by element, and all state among them is written as something that the mask has been
multiplied into, an element that is masked out is zero when a step begins if it was when the last
one began, and reaches nobody. The proof is by induction over the steps: MemoryX makes it true for
the first. It takes two things for granted that a dense run need not show: a masked element that
overflows is zero and not "not a number", and a zero has no sign.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from appliance.core.ir.attributes import constant, integers, resolve_axes, text
from appliance.core.ir.graph import Node
from appliance.core.ir.ops import ELEMENTWISE
from appliance.core.plans.plan import Plan

_POINTWISE = ELEMENTWISE | {"Cast"}
_ZERO_TO_ZERO = frozenset(
    {"Abs", "Cast", "Ceil", "Erf", "Floor", "Relu", "Round", "Sign", "Sin", "Sqrt", "Tanh"}
)


class NotProvenError(Exception):
    """The update part does more with a family than its non-zeros can give; the text says what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What of a plan a proof looks at.

    Attributes:
        nodes: All nodes of the update part, in order.
        readers: The nodes of the update part that read a value.
        splats: Values whose elements are all alike, with whether they are zero.
    """

    plan: Plan
    nodes: tuple[Node, ...]
    readers: Mapping[str, tuple[Node, ...]]
    splats: Mapping[str, bool]

    @classmethod
    def of(cls, plan: Plan) -> "Context":
        """Return that of a plan."""
        nodes = tuple(node for update in plan.updates for node in update.nodes)
        readers: dict[str, list[Node]] = defaultdict(list)
        splats: dict[str, bool] = {}
        for node in (*plan.update_constants, *nodes):
            if (is_zero := _is_zero_splat(node, plan)) is not None:
                splats[node.results[0]] = is_zero
            for name in dict.fromkeys(node.operands):
                readers[name].append(node)
        return cls(
            plan=plan,
            nodes=nodes,
            readers=MappingProxyType({name: tuple(found) for name, found in readers.items()}),
            splats=MappingProxyType(splats),
        )


def _is_zero_splat(node: Node, plan: Plan) -> bool | None:
    """Return whether a node gives zeros alone; None if its elements may differ."""
    if node.op == "Const":
        value = constant(node, "value")
        return not value.to_numpy().reshape(-1)[0] if value.is_splat else None
    if node.op == "BroadcastInDim" and not plan.types[node.operands[0]].shape:
        return False
    return None


@dataclass(slots=True)
class Family:
    """The values of a weight's family.

    Attributes:
        zero: Those that are zero wherever the mask is false.
        alias: Those that are the same as another one where the mask is true.
        casts: The mask as numbers.
        splats: Values of equal elements that are used with them.
    """

    values: set[str]
    zero: set[str]
    alias: dict[str, str] = field(default_factory=dict)
    casts: set[str] = field(default_factory=set)
    splats: set[str] = field(default_factory=set)

    def resolve(self, name: str) -> str:
        """Return what a value is the same as."""
        return self.alias.get(name, name)


def prove(context: Context, weight: str, mask: str) -> Family:
    """Return the family of a weight.

    Args:
        context: The plan.
        weight: The weight, a state tensor.
        mask: Its mask, a state tensor that no update changes.

    Raises:
        NotProvenError: Its non-zeros alone will not do.
    """
    return _Proof(context, weight, mask).run()


def masked_state(context: Context, mask: str) -> tuple[str, ...]:
    """Return the state that a mask is multiplied into, in the order of the plan."""
    casts = {node.results[0] for node in context.readers.get(mask, ()) if node.op == "Cast"}
    products = [node for node in context.nodes if node.op == "Mul"]
    operands = {
        name for node in products if casts & {*node.operands} for name in node.operands
    } - casts
    return tuple(tensor.value for tensor in context.plan.state if tensor.value in operands)


def masked_totals(context: Context, mask: str) -> frozenset[str]:
    """Return the sums of which the update part uses only what a mask lets through."""
    plan = context.plan
    shape, shown = plan.types[mask].shape, _shown(plan)
    return frozenset(
        sum_.total
        for step in plan.layer_steps
        for sum_ in step.sums
        if plan.types[sum_.total].shape == shape
        and _is_masked(sum_.total, mask, context.readers, shown)
    )


def _shown(plan: Plan) -> frozenset[str]:
    """Return the values that somebody reads who is not of the update part."""
    loads = {name for step in plan.layer_steps for name in step.loads}
    return frozenset(loads | {output.value for output in plan.outputs})


def _is_masked(
    name: str, mask: str, readers: Mapping[str, tuple[Node, ...]], shown: frozenset[str]
) -> bool:
    """Whether nobody reads a value but to mask it, or what it is added to."""
    nodes = readers.get(name, ())
    return (
        bool(nodes)
        and name not in shown
        and all(
            (node.op in {"Cast", "Add"} and _is_masked(node.results[0], mask, readers, shown))
            or (
                (node.op == "Select" and node.operands[:2] == (mask, name))
                and node.operands[2] != name
            )
            for node in nodes
        )
    )


class _Proof:
    """The proof for one weight."""

    def __init__(self, context: Context, weight: str, mask: str) -> None:
        self._context, self._mask = context, mask
        self._types = context.plan.types
        self._shape = self._types[weight].shape
        self._members = masked_state(context, mask)
        self._shown = _shown(context.plan)
        totals = masked_totals(context, mask)
        self._family = Family(values={*self._members, *totals}, zero=set(self._members))

    def run(self) -> Family:
        for name in self._members:
            if self._types[name].shape != self._shape:
                raise NotProvenError(f"%{name} has another shape than its mask")
        for node in self._context.nodes:
            touched = {self._mask, *self._family.values, *self._family.casts}
            if not touched.isdisjoint(node.operands):
                self._take(node)
        self._check_commits()
        self._check_shown()
        return self._family

    def _take(self, node: Node) -> None:
        """Take a node in that reads a value of the family or the mask."""
        if node.operands == (self._mask,) and node.op == "Cast":
            self._family.casts.add(node.results[0])
        elif not (self._take_masking(node) or self._take_reduction(node)):
            self._take_pointwise(node)

    def _take_masking(self, node: Node) -> bool:
        family, operands = self._family, node.operands
        if node.op == "Mul" and (operands[0] in family.casts) != (operands[1] in family.casts):
            kept = operands[operands[0] in family.casts]
        elif node.op == "Select" and operands[0] == self._mask and self._is_zero(operands[2]):
            kept = operands[1]
        else:
            return False
        if kept not in family.values:
            return False
        (result,) = node.results
        family.alias[result] = family.resolve(kept)
        family.values.add(result)
        family.zero.add(result)
        return True

    def _take_reduction(self, node: Node) -> bool:
        if node.operands[0] not in self._family.zero:
            return False
        rank = len(self._shape)
        match node.op:
            case "L2Norm":
                axes = integers(node, "dims", ())
            case "Reduce" if text(node, "reduce_kind") == "ADD":
                axes = integers(node, "dimensions")
            case _:
                return False
        return {*resolve_axes(axes, rank)} == {*range(rank)} and not node.types[0].shape

    def _take_pointwise(self, node: Node) -> None:
        family = self._family
        (first, *_) = node.operands
        if node.op not in _POINTWISE or node.types[0].shape != self._shape:
            raise NotProvenError(f"{node.op} reads all of %{first}")
        wide = [name for name in node.operands if self._types[name].shape]
        for name in wide:
            if name in self._context.splats:
                family.splats.add(name)
            elif name not in family.values:
                raise NotProvenError(f"{node.op} reads all of %{name}")
        family.values.update(node.results)
        if self._gives_zero(node):
            family.zero.update(node.results)

    def _is_zero(self, name: str) -> bool:
        return name in self._family.zero or self._context.splats.get(name, False)

    def _gives_zero(self, node: Node) -> bool:
        """Whether the result is zero wherever the mask is false."""
        match node.op:
            case "Mul":
                return any(map(self._is_zero, node.operands))
            case "Div":
                return self._is_zero(node.operands[0])
            case "Select":
                return all(map(self._is_zero, node.operands[1:]))
            case "Add" | "Sub":
                return all(map(self._is_zero, node.operands))
            case op:
                return op in _ZERO_TO_ZERO and self._is_zero(node.operands[0])

    def _check_commits(self) -> None:
        family = self._family
        for update in self._context.plan.updates:
            for commit in update.commits:
                if commit.state in self._members:
                    if commit.value not in family.zero:
                        raise NotProvenError(f"%{commit.state} is not masked when it is written")
                elif commit.value in family.values | family.casts:
                    raise NotProvenError(f"%{commit.state} is written without the mask")

    def _check_shown(self) -> None:
        family = self._family
        hidden = (family.values - family.zero) | family.casts | {self._mask}
        outputs = {output.value for output in self._context.plan.outputs} & family.values
        for name in sorted(outputs | (self._shown & hidden)):
            raise NotProvenError(f"%{name} is read outside of the update part")


def zero_products(context: Context, mask: str) -> Iterable[tuple[str, str]]:
    """Yield each state tensor that a mask is multiplied into, and the product or a cast of it."""
    casts = {node.results[0] for node in context.readers.get(mask, ()) if node.op == "Cast"}
    state = {tensor.value for tensor in context.plan.state}
    for node in context.nodes:
        if node.op != "Mul" or len(casts & {*node.operands}) != 1:
            continue
        (factor,) = set(node.operands) - casts or {""}
        if factor in state and context.plan.types[factor] == node.types[0]:
            yield factor, node.results[0]
            for reader in context.readers.get(node.results[0], ()):
                if reader.op == "Cast" and reader.types[0].dtype.is_float:
                    yield factor, reader.results[0]
