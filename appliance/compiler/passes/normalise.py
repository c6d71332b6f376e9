"""Pass: bring every node into the normal form of `appliance.core.ir.ops`.

Operands that are mere parameters (permutations, slice bounds, shapes, ranges, depths) become
attributes, optional attributes are filled in, and markers that compute nothing disappear.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from appliance.compiler.passes.rewriting import (
    Names,
    renamed,
    simple_node,
    with_nodes,
    without_dead_nodes,
)
from appliance.compiler.passes.slices import SliceBounds, resolve_slice, resolve_strided_slice
from appliance.compiler.passes.support import MARKERS, check_signatures, describe
from appliance.core.errors import ProgramError
from appliance.core.ir.graph import Attribute, Graph, Node
from appliance.core.ir.ops import SPECS
from appliance.core.ir.tensors import Constant, TensorType

_DEFAULTS: Mapping[str, Mapping[str, Attribute]] = {
    "Concat": {"axis": 0},
    "CumProd": {"axis": 0, "exclusive": False, "reverse": False},
    "CumSum": {"axis": 0, "exclusive": False, "reverse": False},
    "FusedBatchNorm": {
        "epsilon": 1e-4,
        "exponential_avg_factor": 1.0,
        "data_format": "NHWC",
        "is_training": True,
    },
    "FusedBatchNormGrad": {"epsilon": 1e-4, "data_format": "NHWC", "is_training": True},
    "Gather": {"axis": 0, "batch_dims": 0},
    "GatherNd": {"start_dim": 0},
    "Gelu": {"approximation": "NONE"},
    "GeluGrad": {"approximation": "NONE"},
    "GroupNorm": {"epsilon": 1e-5, "num_groups": 1, "affine": False, "data_format": "NCHW"},
    "GroupNormGrad": {"epsilon": 1e-5, "num_groups": 1, "affine": False, "data_format": "NCHW"},
    "L2Norm": {"keepdim": False},
    "LayerNorm": {"epsilon": 1e-5},
    "LayerNormGrad": {"epsilon": 1e-5},
    "Pool": {"pool_type": "MAX", "data_format": "NCDHW"},
    "RandomMultinomial": {"replacement": False, "seed": 0},
    "Reduce": {"keep_dims": ()},
    "Scatter": {"axis": 0, "reduce_kind": "NONE"},
    "Softmax": {"axis": -1},
    "SoftmaxCrossEntropyWithLogits": {"axis": -1},
    "SparseSoftmaxCrossEntropyWithLogits": {"axis": -1},
    "TopK": {"largest": True, "sorted": True},
    "pad": {"padding_mode": "CONSTANT"},
}
_OPTIONAL = frozenset({"active_share", "gradient", "transposed", "value"})
_AXES = ("axis", "dim", "dimension", "dimensions", "dims", "keep_dims")
_AXIS_OPS_OF_RESULT = frozenset({"OneHot", "Arange"})


def normalise(graph: Graph) -> Graph:
    """Bring a graph into normal form.

    Args:
        graph: A graph as imported whose operations are all supported.

    Returns:
        The same computation; `appliance.core.ir.ops.verify_ops` holds.

    Raises:
        ProgramError: A parameter is not constant, or a node contradicts its signature.
    """
    result = without_dead_nodes(_Normaliser(_without_unfetched_results(graph)).run())
    check_signatures(result)
    return result


def _without_unfetched_results(graph: Graph) -> Graph:
    """Drop results that are neither output nor new state: something the script still held."""
    aliased = {a.aliased_result for a in graph.arguments if a.aliased_result is not None}
    kept = [
        index
        for index, result in enumerate(graph.results)
        if index in aliased or result.output_name is not None
    ]
    position = {old: new for new, old in enumerate(kept)}
    return replace(
        graph,
        arguments=tuple(
            a if a.aliased_result is None else replace(a, aliased_result=position[a.aliased_result])
            for a in graph.arguments
        ),
        results=tuple(graph.results[index] for index in kept),
    )


class _Normaliser:
    """One walk over a graph."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._types = graph.types()
        self._names = Names(self._types)
        self._constants: dict[str, Constant] = {}
        self._renamed: dict[str, str] = {}
        self._nodes: list[Node] = []
        self._epsilons: dict[str, Attribute] = {}
        self._num_random = 0

    def run(self) -> Graph:
        for original in self._graph.nodes:
            node = renamed(original, self._renamed)
            if node.op in MARKERS:
                self._drop_marker(node)
                continue
            self._remember_constant(node)
            handler = _HANDLERS.get((node.op, len(node.operands)))
            self._nodes += handler(self, node) if handler else [self._plain(node)]
        return with_nodes(self._graph, self._nodes, self._renamed)

    def _drop_marker(self, node: Node) -> None:
        pairs = list(zip(node.results, node.operands, strict=False))
        if len(pairs) < len(node.results) or any(
            self._types[result] != self._types[operand] for result, operand in pairs
        ):
            self._refuse(node, "changes what it should only mark")
        self._renamed.update(pairs)

    def _remember_constant(self, node: Node) -> None:
        """Follow constants through casts and reshapes, for use as parameters."""
        value = node.attributes.get("value")
        if node.op == "Const" and isinstance(value, Constant):
            self._constants[node.results[0]] = value
        elif node.op in ("Cast", "Reshape") and node.operands[0] in self._constants:
            source = self._constants[node.operands[0]].to_numpy()
            if source.size <= 1024:
                array = source.astype(node.types[0].dtype.container)
                self._constants[node.results[0]] = Constant(node.types[0], array.tobytes())

    def _refuse(self, node: Node, problem: str) -> NoReturn:
        raise ProgramError(
            f"Operation {describe(node, self._types)} {problem}.",
            hint="Use a Python number or a constant tensor there.",
        )

    def _parameter(self, node: Node, index: int, what: str) -> NDArray[np.generic]:
        constant = self._constants.get(node.operands[index])
        if constant is None:
            self._refuse(node, f"has a {what} that is not constant")
        return constant.to_numpy()

    def _vector(self, node: Node, index: int, what: str) -> tuple[int, ...]:
        return tuple(int(value) for value in self._parameter(node, index, what).ravel())

    def _number(self, node: Node, index: int, what: str) -> int | float:
        values = np.unique(self._parameter(node, index, what))
        if values.size != 1:
            self._refuse(node, f"has a {what} that is not one number")
        number = values[0].item()
        return number if isinstance(number, int) else float(number)

    def _plain(self, node: Node, extra: Mapping[str, Attribute] | None = None) -> Node:
        """Fill in and filter attributes; `extra` replaces the operands that it stands for."""
        spec = SPECS.get(node.op)
        if spec is None:
            self._refuse(node, f"has {len(node.operands)} operands")
        attributes = {**_DEFAULTS.get(node.op, {}), **node.attributes, **(extra or {})}
        kept = {
            name: value
            for name, value in attributes.items()
            if name in spec.attributes or name in _OPTIONAL
        }
        for name in _AXES:
            if name in kept:
                kept[name] = self._counted_from_front(node, kept[name])
        return replace(node, attributes=kept)

    def _counted_from_front(self, node: Node, value: Attribute) -> Attribute:
        types = [self._types[name] for name in node.operands]
        if node.op in _AXIS_OPS_OF_RESULT or not types:
            types = list(node.types)
        rank = len(types[0].shape) if types else 0
        if isinstance(value, tuple):
            return tuple(axis + rank if axis < 0 else axis for axis in value)
        if isinstance(value, int) and value < 0:
            return value + rank
        return value

    def _without_operands(self, node: Node, keep: int, extra: Mapping[str, Attribute]) -> Node:
        return self._plain(replace(node, operands=node.operands[:keep]), extra)

    def transpose(self, node: Node) -> list[Node]:
        permutation = self._vector(node, 1, "permutation")
        return [self._without_operands(node, 1, {"permutation": permutation})]

    def arange(self, node: Node) -> list[Node]:
        start, step = self._number(node, 0, "start"), self._number(node, 2, "step")
        dim = node.attributes.get("dim", 0)
        return [self._without_operands(node, 0, {"start": start, "step": step, "dim": dim})]

    def random_uniform(self, node: Node) -> list[Node]:
        extra: dict[str, Attribute] = {
            "low": float(self._number(node, 0, "lower bound")),
            "high": float(self._number(node, 1, "upper bound")),
            "seed": node.attributes.get("global_seed", 0),
            "stream": self._next_stream(),
        }
        return [self._without_operands(node, 0, extra)]

    def random_normal(self, node: Node) -> list[Node]:
        extra: dict[str, Attribute] = {
            "mean": float(self._number(node, 0, "mean")),
            "deviation": float(self._number(node, 1, "standard deviation")),
            "seed": node.attributes.get("seed", 0),
            "stream": self._next_stream(),
        }
        return [self._without_operands(node, 0, extra)]

    def random_multinomial(self, node: Node) -> list[Node]:
        return [self._plain(node, {"stream": self._next_stream()})]

    def conditional_arange(self, node: Node) -> list[Node]:
        extra: dict[str, Attribute] = {
            "start": self._number(node, 1, "start"),
            "step": self._number(node, 2, "step"),
        }
        return [self._without_operands(node, 1, extra)]

    def _next_stream(self) -> int:
        self._num_random += 1
        return self._num_random

    def one_hot(self, node: Node) -> list[Node]:
        axis = int(self._number(node, 4, "axis"))
        extra: dict[str, Attribute] = {
            "axis": axis,
            "on": self._number(node, 2, "value"),
            "off": self._number(node, 3, "value"),
        }
        return [self._without_operands(node, 1, extra)]

    def band_part(self, node: Node) -> list[Node]:
        extra: dict[str, Attribute] = {
            "num_lower": int(self._number(node, 1, "band")),
            "num_upper": int(self._number(node, 2, "band")),
        }
        return [self._without_operands(node, 1, extra)]

    def pad(self, node: Node) -> list[Node]:
        fill = node.attributes.get("constant_values")
        if fill is None:
            return [self._plain(node)]
        values = np.unique(fill.to_numpy()) if isinstance(fill, Constant) else np.zeros(1)
        if values.size != 1:
            self._refuse(node, "pads with several numbers")
        return [self._plain(node, {"value": float(values[0])})]

    def group_norm(self, node: Node) -> list[Node]:
        plain = self._plain(node)
        self._epsilons[node.operands[0]] = plain.attributes["epsilon"]
        return [plain]

    def group_norm_grad(self, node: Node) -> list[Node]:
        """The front end forgets epsilon; it is that of the forward pass over the same values."""
        epsilon = self._epsilons.get(node.operands[1])
        return [self._plain(node, None if epsilon is None else {"epsilon": epsilon})]

    def masked_rows(self, node: Node) -> list[Node]:
        """Say which share of its rows the product computes, where the program knows."""
        rows = self._types[node.operands[-2]].shape[-1]
        capacity, experts, chosen = (
            node.attributes.get(name)
            for name in (
                "denseCapacity",
                "expert_block_info.num_experts",
                "expert_block_info.top_k",
            )
        )
        share = 1.0
        if isinstance(experts, int) and isinstance(chosen, int) and experts > 0:
            share = chosen / experts
        if isinstance(capacity, int):
            share = min(share, capacity / rows)
        return [self._plain(node, {"active_share": share} if 0.0 < share < 1.0 else None)]

    def reduce_bias(self, node: Node) -> list[Node]:
        """The bias only says how large its gradient is."""
        return [self._plain(replace(node, op="BiasAddGrad", operands=node.operands[:1]))]

    def weight_gradient(self, node: Node) -> list[Node]:
        """The weight only says which elements of its gradient somebody may want."""
        extra: dict[str, Attribute] = {"transpose_a": False, "transpose_b": True}
        return [self._plain(replace(node, op="MatMul", operands=node.operands[:2]), extra)]

    def ranged_weight_gradient(self, node: Node) -> list[Node]:
        gradient, x, _, counts = node.operands
        return [self._plain(replace(node, operands=(gradient, x, counts)))]

    def top_k(self, node: Node) -> list[Node]:
        return [self._plain(replace(node, results=node.results[:2], types=node.types[:2]))]

    def slice(self, node: Node) -> list[Node]:
        bounds = resolve_slice(
            self._types[node.operands[0]].shape,
            self._vector(node, 1, "start"),
            self._vector(node, 2, "size"),
        )
        return self._sliced(node, bounds)

    def strided_slice(self, node: Node) -> list[Node]:
        return self._sliced(node, self._bounds(node, self._types[node.operands[0]].shape, first=1))

    def _bounds(self, node: Node, shape: tuple[int, ...], *, first: int) -> SliceBounds:
        begin, end, stride = (self._vector(node, first + index, "bound") for index in range(3))
        bounds = resolve_strided_slice(shape, begin, end, stride, node.attributes)
        if any(step < 1 for step in bounds.stride):
            self._refuse(node, f"has stride {bounds.stride}")
        return bounds

    def _sliced(self, node: Node, bounds: SliceBounds) -> list[Node]:
        """Slice without change of rank, then drop or insert dims by a reshape."""
        part = TensorType(bounds.sizes, node.types[0].dtype)
        name = node.results[0]
        sliced = self._names.fresh(f"{name}.part") if part != node.types[0] else name
        nodes = [
            simple_node(
                "StridedSlice",
                node.operands[:1],
                sliced,
                part,
                location=node.location,
                attributes=bounds.attributes,
            )
        ]
        if sliced != name:
            nodes.append(
                simple_node("Reshape", (sliced,), name, node.types[0], location=node.location)
            )
        return nodes

    def strided_slice_grad(self, node: Node) -> list[Node]:
        bounds = self._bounds(node, self._vector(node, 0, "shape"), first=1)
        gradient = node.operands[4]
        part = TensorType(bounds.sizes, self._types[gradient].dtype)
        nodes: list[Node] = []
        if part != self._types[gradient]:
            name = self._names.fresh(f"{gradient}.part")
            nodes.append(simple_node("Reshape", (gradient,), name, part, location=node.location))
            gradient = name
        placed = replace(
            node, operands=(gradient,), attributes=bounds.attributes, op="StridedSliceGrad"
        )
        return [*nodes, placed]

    def batch_norm(self, node: Node) -> list[Node]:
        """In evaluation the running statistics pass through unchanged."""
        plain = self._plain(node)
        if not plain.attributes["is_training"]:
            for result, operand in zip(node.results[1:], node.operands[3:5], strict=True):
                if self._types[result] == self._types[operand]:
                    self._renamed[result] = operand
        return [plain]


_Handler = Callable[[_Normaliser, Node], list[Node]]
_HANDLERS: Mapping[tuple[str, int], _Handler] = {
    ("Arange", 3): _Normaliser.arange,
    ("DMatMul", 3): _Normaliser.weight_gradient,
    ("ConditionalArange", 3): _Normaliser.conditional_arange,
    ("FusedBatchNorm", 5): _Normaliser.batch_norm,
    ("GroupNorm", 3): _Normaliser.group_norm,
    ("GroupNormGrad", 2): _Normaliser.group_norm_grad,
    ("GroupNormGrad", 3): _Normaliser.group_norm_grad,
    ("MatrixBandPart", 3): _Normaliser.band_part,
    ("OneHot", 5): _Normaliser.one_hot,
    ("RandomMultinomial", 1): _Normaliser.random_multinomial,
    ("RandomNormal", 2): _Normaliser.random_normal,
    ("RandomUniform", 3): _Normaliser.random_uniform,
    ("RangedDMatMul", 4): _Normaliser.ranged_weight_gradient,
    ("ReduceBias", 2): _Normaliser.reduce_bias,
    ("Slice", 3): _Normaliser.slice,
    ("SparseActMatMul", 3): _Normaliser.masked_rows,
    ("SparseActMatMulGrad", 4): _Normaliser.masked_rows,
    ("StridedSlice", 4): _Normaliser.strided_slice,
    ("StridedSliceGrad", 5): _Normaliser.strided_slice_grad,
    ("TopK", 1): _Normaliser.top_k,
    ("Transpose", 2): _Normaliser.transpose,
    ("pad", 1): _Normaliser.pad,
}
"""How an operation is read that is not in normal form yet, by its number of operands."""
