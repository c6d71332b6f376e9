"""Which nodes of a program run together."""

from collections.abc import Collection, Mapping, Sequence

import torch

from appliance.core.graph import Node
from appliance.core.tensors import TensorType
from appliance.numerics.groups import Group, in_order, uses_of
from appliance.numerics.kernels import compile_node
from appliance.numerics.loops.region_kernels import region_group
from appliance.numerics.loops.regions import find_regions


def group_nodes(
    nodes: Sequence[Node],
    types: Mapping[str, TensorType],
    known: Mapping[str, torch.Tensor],
    live_out: Collection[str],
) -> list[Group]:
    """Return the groups of a list of nodes, in an order in which they can run.

    Args:
        nodes: The computation, in order.
        types: Type of every value.
        known: Values that never change.
        live_out: Values that are kept.

    Raises:
        InternalError: A node has no kernel.
    """
    uses = uses_of(nodes, live_out)
    made: dict[tuple[int, ...], Group] = {}
    for members in find_regions(nodes, types, uses):
        made[members] = region_group(members, nodes, types, known, uses)
    taken = {position for members in made for position in members}
    singles = [(at,) for at in range(len(nodes)) if at not in taken]
    ordered = in_order([*made, *singles], nodes)
    return [made.get(part) or single_group(nodes[part[0]], types) for part in ordered]


def single_group(node: Node, types: Mapping[str, TensorType]) -> Group:
    """Return the group of one node, with the kernel of its operation."""
    return Group(
        nodes=(node,),
        kernel=compile_node(node, [types[name] for name in node.operands]),
        operands=node.operands,
        results=node.results,
        types=node.types,
    )
