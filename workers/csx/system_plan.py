"""The part of a plan that one system needs to run, without the plan's nodes."""

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, replace

from appliance.core.ir.sharding import BatchShard
from appliance.core.plans.loads.packed import without_casts
from appliance.core.plans.loads.residency import Deliveries, deliveries
from appliance.core.plans.micro_batches import Visit, num_micro_batches, visits
from appliance.core.plans.plan import Plan
from appliance.core.pods.pod_options import StreamMode
from appliance.numerics.kernels.linear_algebra import has_native_bfloat16
from appliance.streams.slot_layout import SlotLayout, Span
from appliance.streams.stream_topology import batch_layout, largest, load_layout, sum_layout
from appliance.streams.torch_views import SlotTensors
from workers.csx.loads.kept_places import places_of
from workers.csx.loads.mapped_loads import MappedLoads
from workers.csx.loads.residents import Residents
from workers.csx.loads.unpacking import Unpacking
from workers.csx.samples.micro_batches import ShareProgram, share_parts
from workers.csx.sparse_forms import NO_FORMS, sparse_forms
from workers.csx.sparse_values import SparseValues


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemPlan:
    """The part of a plan that one system needs.

    Attributes:
        step_names: Names of the layer steps.
        visits: The visits of a step, in order.
        strands: The wafer part of each strand.
        deliveries: Which row each visit is sent; without the rows' names.
        load_bytes: Size of each row.
        unpacked_bytes: What is made of each row's packed loads takes beside them.
        sum_bytes: Size of each layer step's sums.
        sum_spans: How each layer step's sums are added up.
        loads: Tensors of a slot of the broadcast stream, by row.
        sums: Tensors of a slot of the gradient stream, by layer step.
        batch: Tensors of a slot of the batch stream.
        residents: Loads that stay.
        unpacking: Makes of packed loads what programs take.
        mapped: Loads where MemoryX's memory is mapped; None where they are sent.
        sparse: Sparse loads and sums; None where there are none.
    """

    step_names: tuple[str, ...]
    visits: tuple[Visit, ...]
    strands: tuple[ShareProgram, ...]
    deliveries: Deliveries
    load_bytes: "array[int]"
    unpacked_bytes: "array[int]"
    sum_bytes: "array[int]"
    sum_spans: tuple[tuple[Span, ...], ...]
    largest_sum_bytes: int
    loads: SlotTensors
    sums: SlotTensors
    batch: SlotTensors
    residents: Residents
    unpacking: Unpacking
    mapped: MappedLoads | None
    sparse: SparseValues | None


def system_part(
    plan: Plan,
    share: BatchShard,
    *,
    num_systems: int,
    num_shards: int,
    mode: StreamMode,
    keep_bytes: int = 0,
    num_strands: int = 1,
    is_on_processor: bool = True,
) -> SystemPlan:
    """Return the part that a system needs.

    Args:
        plan: A verified plan.
        share: The system's share of the batch.
        num_systems: Number of systems of the session.
        num_shards: Shards of MemoryX.
        mode: How layer steps get what they load.
        keep_bytes: What the system may keep of loads within a step.
        num_strands: Strands that divide the share.
        is_on_processor: Whether programs run there, where alone they take non-zeros.
    """
    plan = without_casts(plan)
    unpacking = Unpacking(plan, is_narrow=is_on_processor and has_native_bfloat16())
    forms = sparse_forms(plan) if is_on_processor else NO_FORMS
    sent = deliveries(plan, num_systems, keep_bytes=keep_bytes)
    order = visits(plan, num_systems)
    load_layouts = tuple(load_layout(plan, row) for row in sent.rows)
    sum_layouts = tuple(sum_layout(plan, step) for step in plan.layer_steps)
    sums = SlotTensors(sum_layouts)
    return SystemPlan(
        step_names=tuple(step.name for step in plan.layer_steps),
        visits=order,
        strands=share_parts(
            plan,
            share,
            count=num_micro_batches(plan, num_systems),
            num_strands=num_strands,
            mode=mode,
            forms=forms,
        ),
        deliveries=replace(sent, rows=()),
        load_bytes=_sizes(load_layouts),
        unpacked_bytes=array("q", map(unpacking.num_bytes, sent.rows)),
        sum_bytes=_sizes(sum_layouts),
        sum_spans=_spans(sum_layouts),
        largest_sum_bytes=largest(sum_layouts),
        loads=SlotTensors(load_layouts),
        sums=sums,
        batch=SlotTensors((batch_layout(plan, share),)),
        residents=Residents(plan, sent, places_of(plan, sent, order)),
        unpacking=unpacking,
        mapped=MappedLoads(plan, num_shards) if mode is StreamMode.MAPPED else None,
        sparse=SparseValues(plan, sent.rows, sums, forms) if plan.sparse else None,
    )


def _spans(layouts: Iterable[SlotLayout]) -> tuple[tuple[Span, ...], ...]:
    """Return the spans of each layout, those of layouts that are alike once."""
    alike: dict[tuple[Span, ...], tuple[Span, ...]] = {}
    return tuple(alike.setdefault(found, found) for found in map(SlotLayout.spans, layouts))


def _sizes(layouts: Iterable[SlotLayout]) -> "array[int]":
    return array("q", [layout.num_bytes for layout in layouts])
