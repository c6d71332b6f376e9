"""Which loads that stay a bridge can receive where they stay, and where that is.

A load stays from the message that brings it to the last visit of the step that loads it, and the
same memory is overwritten as the next step's message arrives. A bridge receives a message once the
ring has a free slot for it, so once the message that had the slot before was released: as many
messages earlier as the ring has slots. Where the last visit's message is later than that, what it
reads could be overwritten; such a load is copied out of its slot.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from appliance.core.plans.generation import loop_node
from appliance.core.plans.loads.kept import first_and_last_visits
from appliance.core.plans.loads.residency import Deliveries
from appliance.core.plans.micro_batches import Visit
from appliance.core.plans.plan import Execution, Plan
from appliance.streams.network.scatter import Fragment, Fragments, Scatter
from appliance.streams.slot_layout import SlotLayout
from appliance.streams.stream_topology import MAX_RING_SLOTS, load_layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where loads stay that a bridge can receive there.

    Attributes:
        area: They, as they lie in the ring's area.
        scatter: Says so to the bridge; None if there are none.
    """

    area: SlotLayout
    scatter: Scatter | None


def places_of(plan: Plan, sent: Deliveries, order: Sequence[Visit]) -> Places:
    """Return where the loads of a plan stay.

    Args:
        plan: A verified plan, with the sparse weights that the session handles as such.
        sent: What the system is sent.
        order: The visits of a step.
    """
    names = dict.fromkeys(_placeable(plan, sent, order))
    area = load_layout(plan, names)
    if not names:
        return Places(area=area, scatter=None)
    offsets = {item.name: item.offset for item in area.items}
    rows = tuple(_fragments(load_layout(plan, row), offsets) for row in sent.rows)
    scatter = Scatter(
        area_bytes=area.num_bytes,
        num_slots=MAX_RING_SLOTS,
        first_step=tuple(rows[row] for row in sent.first_step),
        later_steps=tuple(rows[row] for row in sent.later_steps),
    )
    return Places(area=area, scatter=scatter)


def _placeable(plan: Plan, sent: Deliveries, order: Sequence[Visit]) -> Iterator[str]:
    """Yield what can be received where it stays, in the order of first load."""
    if loop_node(plan) is not None:
        return  # the loop reads what visits before its own have loaded
    # The place of a value in a slot with sparse ones is not known beforehand.
    sparse = {name for each in plan.sparse for name in each.loads}
    moving = {name for row in sent.rows if sparse.intersection(row) for name in row}
    for name, (first, last) in first_and_last_visits(plan, order).items():
        stays = plan.execution is Execution.PIPELINED or name in sent.kept
        distance = first + len(order) - last
        if stays and name not in moving and distance >= MAX_RING_SLOTS:
            yield name


def _fragments(row: SlotLayout, offsets: dict[str, int]) -> Fragments:
    """Return where the parts of a message go, given the offsets in the area of what goes there."""
    fragments: list[Fragment] = []
    bounds = [*(item.offset for item in row.items), row.num_bytes]
    for item, end in zip(row.items, bounds[1:], strict=True):
        fragment = Fragment(
            start=item.offset, num_bytes=end - item.offset, area_start=offsets.get(item.name)
        )
        if fragments and (joined := _joined(fragments[-1], fragment)) is not None:
            fragments[-1] = joined
        else:
            fragments.append(fragment)
    return (
        tuple(fragments) if any(fragment.area_start is not None for fragment in fragments) else ()
    )


def _joined(fragment: Fragment, following: Fragment) -> Fragment | None:
    """Return a fragment and the one behind it in the message as one, if they go to one place."""
    goes_on = (
        following.area_start is None
        if fragment.area_start is None
        else following.area_start == fragment.area_start + fragment.num_bytes
    )
    if not goes_on:
        return None
    return Fragment(
        start=fragment.start,
        num_bytes=fragment.num_bytes + following.num_bytes,
        area_start=fragment.area_start,
    )
