"""Which nodes of a program run together."""

from collections.abc import Collection, Mapping, Sequence

import torch

from appliance.core.ir.graph import Node
from appliance.core.ir.tensors import TensorType
from appliance.numerics.devices import on_device
from appliance.numerics.groups import Group, Uses, in_order, uses_of
from appliance.numerics.kernels import compile_node
from appliance.numerics.loops.region_kernels import region_group
from appliance.numerics.loops.regions import find_regions
from appliance.numerics.programs.narrow_values import is_one_pass, narrow_group
from appliance.numerics.programs.patterns import find_patterns
from appliance.numerics.sparse.weight_products import sparse_group


def group_nodes(
    nodes: Sequence[Node],
    types: Mapping[str, TensorType],
    known: Mapping[str, torch.Tensor],
    live_out: Collection[str],
    *,
    device: torch.device | None = None,
    sparse: Collection[str] = (),
    gradients: Mapping[str, str] | None = None,
    is_narrow: bool = False,
) -> list[Group]:
    """Return the groups of a list of nodes, in an order in which they can run.

    Args:
        nodes: The computation, in order.
        types: Type of every value.
        known: Values that never change.
        live_out: Values that are kept.
        device: Where they run; None is the processor, for which alone there are loops.
        sparse: Weights that come as their non-zeros; see `weight_products`.
        gradients: Results that are wanted at a pattern, and the weight that has it.
        is_narrow: Whether bfloat16 results take two bytes each; see `narrow_values`.

    Raises:
        InternalError: A node has no kernel.
    """
    uses = uses_of(nodes, live_out)
    patterns = find_patterns(nodes, types, uses)
    if device is None:
        taken_before = {at for part in patterns for at in part}
        regions = [
            part
            for part in find_regions(nodes, types, uses, taken_before)
            if not (is_narrow and len(part) == 1 and is_one_pass(nodes[part[0]], types))
        ]
    else:
        regions = []
    taken = {position for part in (*patterns, *regions) for position in part}
    made = dict(patterns)
    made.update(
        {at: region_group(at, nodes, types, known, uses, is_narrow=is_narrow) for at in regions}
    )
    for at, node in enumerate(nodes):
        if at not in taken:
            found = sparse_group(node, types, sparse=sparse, gradients=gradients or {})
            group = found or single_group(node, types)
            made[(at,)] = narrow_group(group, types) if is_narrow else group
    needed = _needed([made[part] for part in in_order([*made], nodes)], uses)
    return needed if device is None else [on_device(group, device) for group in needed]


def single_group(node: Node, types: Mapping[str, TensorType]) -> Group:
    """Return the group of one node, with the kernel of its operation."""
    return Group(
        nodes=(node,),
        kernel=compile_node(node, [types[name] for name in node.operands]),
        operands=node.operands,
        results=node.results,
        types=node.types,
    )


def _needed(groups: Sequence[Group], uses: Uses) -> list[Group]:
    """Return the groups without those whose results are no longer read.

    A loop reads what a node merely repeats; then the node itself has nothing left to do.
    """
    wanted = set(uses.live_out)
    kept: list[Group] = []
    for group in reversed(groups):
        if any(name in wanted or name not in uses.readers for name in group.results):
            kept.append(group)
            wanted.update(group.operands)
    return kept[::-1]
