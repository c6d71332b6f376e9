"""One session of SwarmX: a loop that broadcasts, a loop that reduces."""

import contextlib
from collections.abc import Callable, Sequence

from appliance.core.errors import StreamClosedError
from appliance.core.micro_batches import visits
from appliance.core.plan import Plan
from appliance.core.residency import deliveries
from appliance.core.run import RunSchedule
from appliance.pods.context import PodContext
from appliance.pods.sessions import Loops
from appliance.streams.protocol import RingReader, Store
from appliance.streams.topology import (
    ANNOUNCE,
    BROADCAST,
    STREAMS_OPTION,
    SUMS,
    StreamMode,
    gradients,
    largest,
    load_layout,
    num_ring_slots,
    sum_layout,
    sums_stream,
)
from appliance.swarmx.copies import broadcast_copies
from appliance.swarmx.reduction import Accumulation, Reduction, Slot, spans


class BroadcastReduceSession:
    """A session of the broadcastreduce pod; see `appliance.pods.sessions.Session`.

    Args:
        context: The pod.
        number: The session's number.
        plan: A verified plan.
        num_systems: Number of CS-2 systems.
        fan_in: Children that one node of the reduction tree waits for.
    """

    def __init__(
        self, context: PodContext, *, number: int, plan: Plan, num_systems: int, fan_in: int
    ) -> None:
        self._context, self._number, self._plan = context, number, plan
        self._num_systems = num_systems
        self._visits = visits(plan, num_systems)
        self._deliveries = deliveries(plan, num_systems)
        self._mode = StreamMode(context.spec.options.get(STREAMS_OPTION) or StreamMode.RING)
        rows = self._deliveries.rows if self._mode is StreamMode.RING else ()
        self._copies = broadcast_copies(plan, rows)
        self._row_bytes = tuple(load_layout(plan, row).num_bytes for row in rows)
        self._adds_up = sums_stream(plan, num_systems) == SUMS
        self._reduction = Reduction(num_systems, fan_in=fan_in)
        layouts = tuple(sum_layout(plan, step) for step in plan.layer_steps)
        self._sum_bytes = tuple(layout.num_bytes for layout in layouts)
        self._spans = tuple(spans(layout) for layout in layouts)
        self._accumulation = Accumulation(layouts)
        self._num_bytes_copied = 0
        broadcast_bytes, sum_bytes = max(self._row_bytes, default=0), largest(layouts)
        with contextlib.ExitStack() as stack:
            self._broadcast = stack.enter_context(
                context.serve_ring(
                    number,
                    BROADCAST,
                    num_slots=num_ring_slots(broadcast_bytes),
                    slot_bytes=broadcast_bytes,
                    num_readers=num_systems,
                )
            )
            if self._adds_up:
                self._sums = stack.enter_context(
                    context.serve_ring(
                        number,
                        SUMS,
                        num_slots=num_ring_slots(sum_bytes),
                        slot_bytes=sum_bytes,
                    )
                )
            self._streams = stack.pop_all()

    def start(self, schedule: RunSchedule) -> Loops:
        """Connect to MemoryX and every CS-2, and return the two loops."""
        context, number = self._context, self._number
        announce = self._streams.enter_context(context.connect_ring(number, ANNOUNCE))
        store = self._streams.enter_context(context.attach_store(number, is_read_only=True))
        loops: dict[str, Callable[[], None]] = {
            "broadcast": lambda: self._broadcast_loads(schedule.num_steps, announce, store)
        }
        if self._adds_up:
            contributions = [
                self._streams.enter_context(context.connect_ring(number, gradients(system)))
                for system in range(self._num_systems)
            ]
            loops["reduce"] = lambda: self._reduce_sums(schedule.num_steps, contributions)
        return loops

    def close(self) -> None:
        """Close the streams and wake both loops."""
        self._streams.close()

    def _broadcast_loads(self, num_steps: int, announce: RingReader, store: Store) -> None:
        for step in range(num_steps):
            for number in range(len(self._visits)):
                if announce.acquire() is None:
                    raise StreamClosedError(f"Stream {ANNOUNCE!r} ended before the last step.")
                slot = self._broadcast.reserve()
                num_bytes = 0
                if self._copies:
                    row = self._deliveries.row(step, number)
                    num_bytes = self._row_bytes[row]
                    store.read([copy.into(slot) for copy in self._copies[row]])
                    self._num_bytes_copied += sum(copy.num_bytes for copy in self._copies[row])
                self._broadcast.publish(num_bytes)
                announce.release()
            if not self._adds_up:
                self._record(step + 1)
        self._broadcast.end()

    def _reduce_sums(self, num_steps: int, contributions: Sequence[RingReader]) -> None:
        def take(system: int) -> Slot:
            slot = contributions[system].acquire()
            if slot is None:
                raise StreamClosedError(f"Stream {gradients(system)!r} ended before the last step.")
            return slot

        for step in range(num_steps):
            for visit in self._visits:
                layout_spans = self._spans[visit.layer_step]
                is_last = visit.is_last
                total = self._sums.reserve() if is_last else self._accumulation.target(visit)
                self._reduction.run(layout_spans, take, total)
                self._accumulation.add(visit, layout_spans, total)
                if is_last:
                    self._sums.publish(self._sum_bytes[visit.layer_step])
                for contribution in contributions:
                    contribution.release()
            self._record(step + 1)
        self._sums.end()

    def _record(self, num_steps: int) -> None:
        self._context.progress.record(
            step=num_steps,
            readings={"wsc_swarmx_broadcast_copied_bytes": float(self._num_bytes_copied)},
        )
