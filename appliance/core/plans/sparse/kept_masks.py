"""Updates in steps that take no new mask: what computes one is left out.

GMP, SET and RigL compute a new mask in every step and then select it or the old one by a single
truth value, such as whether the step's number is a multiple of their frequency. Computing it sorts
all of a weight, which takes longer than everything else in the update. Where the value is known
before the update runs, the update is run without the sorting if it is false.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from appliance.core.ir.graph import Node, needed_nodes
from appliance.core.ir.tensors import DType, TensorType
from appliance.core.plans.plan import Plan, Update

_SORTS = "TopK"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptMasks:
    """How an update runs in a step that takes no new mask.

    Attributes:
        conditions: Scalars, or values that an earlier update has spread from one, of which none may
            be true in such a step.
        deciding: Nodes of the update that compute them, in order, scalars all.
        update: What remains of the update.
    """

    conditions: tuple[str, ...]
    deciding: tuple[Node, ...]
    update: Update


def spread_scalars(plan: Plan) -> Mapping[str, str]:
    """Return the values of the update part that are copies of a scalar, with the scalar."""
    return {
        node.results[0]: node.operands[0]
        for update in plan.updates
        for node in update.nodes
        if node.op == "BroadcastInDim" and not plan.types[node.operands[0]].shape
    }


def kept_masks(
    update: Update,
    *,
    read_later: Collection[str],
    types: Mapping[str, TensorType],
    spread: Mapping[str, str],
) -> KeptMasks | None:
    """Return how an update runs in a step that takes no new mask; None if that saves no sorting.

    Args:
        read_later: Values of it that somebody reads afterwards, commits aside.
        types: Of all values.
        spread: See `spread_scalars`; masks of one shape share them, in whichever update they are.
    """
    made = {name for node in update.nodes for name in node.results}
    taken: dict[str, str] = {}
    conditions: dict[str, None] = {}
    for node in update.nodes:
        (result, *_) = node.results
        if node.op != "Select" or types[result].dtype is not DType.I1 or result in read_later:
            continue
        condition = node.operands[0]
        if types[condition].shape and condition not in spread:
            continue
        taken[result] = node.operands[2]
        conditions[spread.get(condition, condition) if condition in made else condition] = None
    deciding = needed_nodes(update.nodes, conditions)
    remaining = _without(update, taken, read_later)
    num_sorts, num_left = (sum(n.op == _SORTS for n in u.nodes) for u in (update, remaining))
    are_scalars = all(not types[name].shape for node in deciding for name in node.results)
    if num_left == num_sorts or not are_scalars:
        return None
    return KeptMasks(conditions=tuple(conditions), deciding=deciding, update=remaining)


def _without(update: Update, taken: Mapping[str, str], read_later: Collection[str]) -> Update:
    """Return an update in which values are others, and which computes only what is used."""

    def resolve(name: str) -> str:
        while name in taken:
            name = taken[name]
        return name

    commits = tuple(replace(each, value=resolve(each.value)) for each in update.commits)
    nodes = tuple(
        replace(node, operands=tuple(map(resolve, node.operands)))
        for node in update.nodes
        if node.results[0] not in taken
    )
    used = {commit.value for commit in commits} | {*read_later}
    return replace(
        update,
        nodes=needed_nodes(nodes, used),
        commits=tuple(each for each in commits if each.value != each.state),
    )
