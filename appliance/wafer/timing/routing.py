"""Which values of a plan matter for some rows only, and what products of such rows cost.

A router writes a mask of rows for each expert, and `SparseActMatMul` computes the rows of its mask;
what is made of its result, element by element, is zero in all other rows as long as zeros stay
zeros. So the wafer computes and holds a share of the rows. How large the share will be is not known
before the data are: the program says how many of how many experts a row goes to, or how many rows
of a sample there can be at most, and the share is taken from that.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from appliance.core.ir.attributes import number
from appliance.core.ir.graph import Node
from appliance.core.plans.plan import Plan
from appliance.wafer.timing.operations import Kind, Operation

ROUTED_PRODUCTS = frozenset(
    {
        *("SparseActMatMul", "SparseActMatMulGrad", "SparseMatMul", "SparseMatMulGrad"),
        *("RangedMatMul", "RangedDMatMul"),
    }
)
_MASKED = frozenset({"SparseActMatMul", "SparseActMatMulGrad"})
_VIEWS = frozenset({"BroadcastInDim", "Cast", "Reshape"})
_KEEP_ZERO = frozenset(
    {*("Abs", "Elu", "Gelu", "LeakyRelu", "Relu", "Sign", "Sin", "Tanh", "wsc.Copy"), *_VIEWS}
)
_ZERO_BY_ANY = frozenset({"Mul"})
_ZERO_BY_FIRST = frozenset({"Div", "EluGrad", "GeluGrad", "LeakyReluGrad", "ReluGrad"})
_ZERO_BY_SECOND = frozenset({"SigmoidGrad"})
_ZERO_BY_ALL = frozenset({"Add", "Sub"})


def routed_values(plan: Plan) -> Mapping[str, float]:
    """Return the values that are zero outside of routed rows, with the share of those rows.

    Args:
        plan: A verified plan; its layer steps are in the order in which they run.
    """
    nodes = [node for step in plan.layer_steps for node in step.nodes]
    if not any(node.op in _MASKED for node in nodes):
        return {}
    walk = _Walk()
    walk.follow_views((*plan.wafer_constants, *nodes))
    walk.find_masks(nodes)
    for node in nodes:
        walk.visit(node)
    return walk.shares


@dataclass(slots=True)
class _Walk:
    """Follows zeros through the nodes of a step."""

    shares: dict[str, float] = field(default_factory=dict)
    _sources: dict[str, str] = field(default_factory=dict)
    _masks: dict[str, float] = field(default_factory=dict)

    def follow_views(self, nodes: Iterable[Node]) -> None:
        """Remember of what each view shows the elements."""
        for node in nodes:
            if node.op in _VIEWS and node.operands:
                self._sources[node.results[0]] = self._source(node.operands[0])

    def find_masks(self, nodes: Iterable[Node]) -> None:
        """Remember the masks of the products, in whatever form others read them."""
        for node in nodes:
            if node.op in _MASKED:
                self._masks[self._source(node.operands[-2])] = active_share(node)

    def visit(self, node: Node) -> None:
        """Find the share of a node's first result."""
        share = active_share(node) if node.op in _MASKED else self._inherited(node)
        if share < 1.0:
            self.shares[node.results[0]] = share

    def _source(self, name: str) -> str:
        return self._sources.get(name, name)

    def _share(self, name: str) -> float:
        return self.shares.get(name, self._masks.get(self._source(name), 1.0))

    def _inherited(self, node: Node) -> float:
        shares = [self._share(name) for name in node.operands]
        if not shares:
            return 1.0
        if node.op in _ZERO_BY_ANY:
            return min(shares)
        if node.op in _ZERO_BY_FIRST or node.op in _KEEP_ZERO:
            return shares[0]
        if node.op in _ZERO_BY_SECOND:
            return shares[1]
        return max(shares) if node.op in _ZERO_BY_ALL else 1.0


def active_share(node: Node) -> float:
    """Return which share of its rows a product computes, as far as the program says."""
    return number(node, "active_share") if "active_share" in node.attributes else 1.0


def routed_operations(plan: Plan, node: Node, index: int, bits: int) -> tuple[Operation, ...]:
    """Return what a product of routed rows asks of the wafer: for a gradient, two products.

    Args:
        plan: A verified plan.
        node: One of `ROUTED_PRODUCTS`.
        index: Its layer step.
        bits: Width of its operands.
    """
    rows = plan.types[node.operands[1 if node.op == "RangedMatMul" else 0]]
    weight = _matrix(plan, node)
    tokens = active_share(node) * rows.num_elements / rows.shape[-1] / plan.batch_size
    inner, outer = weight[-1], weight[0]

    def product(kind: Kind, inner: int, outer: int) -> Operation:
        return Operation(
            name=node.op,
            kind=kind,
            layer_step=index,
            tokens=tokens,
            inner=inner,
            outer=outer,
            bits=bits,
        )

    if node.op == "RangedDMatMul":
        return (product(Kind.WEIGHT_GRADIENT, inner, outer),)
    if node.op.endswith("Grad"):
        return (
            product(Kind.MATMUL, outer, inner),
            product(Kind.WEIGHT_GRADIENT, inner, outer),
        )
    return (product(Kind.MATMUL, inner, outer),)


def _matrix(plan: Plan, node: Node) -> tuple[int, ...]:
    match node.op:
        case "RangedDMatMul":
            return node.types[0].shape
        case "RangedMatMul":
            return plan.types[node.operands[0]].shape
        case _:
            return plan.types[node.operands[-1]].shape
