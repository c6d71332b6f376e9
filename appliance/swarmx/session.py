"""One session of SwarmX: a loop that broadcasts, a loop that reduces."""

import contextlib
from collections.abc import Callable, Mapping, Sequence

from appliance.core.errors import StreamClosedError
from appliance.core.micro_batches import visits
from appliance.core.plan import Plan
from appliance.core.residency import deliveries
from appliance.core.run import RunSchedule
from appliance.pods.context import PodContext
from appliance.pods.sessions import Loops
from appliance.streams.protocol import RingReader
from appliance.streams.store import attach_store
from appliance.streams.topology import (
    ANNOUNCE,
    BROADCAST,
    COMPUTED_SEGMENT,
    NUM_RING_SLOTS,
    STATE_SEGMENT,
    STORE,
    STREAMS_OPTION,
    SUMS,
    StreamMode,
    gradients,
    largest,
    load_layout,
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
        self._adds_up = sums_stream(plan, num_systems) == SUMS
        self._reduction = Reduction(num_systems, fan_in=fan_in)
        layouts = tuple(sum_layout(plan, step) for step in plan.layer_steps)
        self._spans = tuple(spans(layout) for layout in layouts)
        self._accumulation = Accumulation(layouts)
        self._num_bytes_copied = 0
        with contextlib.ExitStack() as stack:
            self._broadcast = stack.enter_context(
                context.serve_ring(
                    number,
                    BROADCAST,
                    num_slots=NUM_RING_SLOTS,
                    slot_bytes=self._broadcast_bytes(),
                    num_readers=num_systems,
                )
            )
            if self._adds_up:
                self._sums = stack.enter_context(
                    context.serve_ring(
                        number,
                        SUMS,
                        num_slots=NUM_RING_SLOTS,
                        slot_bytes=largest(layouts),
                    )
                )
            self._streams = stack.pop_all()

    def _broadcast_bytes(self) -> int:
        if self._mode is StreamMode.MAPPED:
            return 0
        return largest(load_layout(self._plan, row) for row in self._deliveries.rows)

    def start(self, schedule: RunSchedule) -> Loops:
        """Connect to MemoryX and every CS-2, and return the two loops."""
        context, number = self._context, self._number
        announce = self._streams.enter_context(context.connect_ring(number, ANNOUNCE))
        memory = self._attach_memory()
        loops: dict[str, Callable[[], None]] = {
            "broadcast": lambda: self._broadcast_loads(schedule.num_steps, announce, memory)
        }
        if self._adds_up:
            contributions = [
                self._streams.enter_context(context.connect_ring(number, gradients(system)))
                for system in range(self._num_systems)
            ]
            loops["reduce"] = lambda: self._reduce_sums(schedule.num_steps, contributions)
        return loops

    def _attach_memory(self) -> Mapping[str, Slot]:
        """Return the segments of the store that are copied from."""
        if self._mode is StreamMode.MAPPED:
            return {}
        store = self._streams.enter_context(
            attach_store(
                self._context.stream_address(self._number, STORE),
                client=self._context.spec.name,
                is_read_only=True,
                clock=self._context.clock,
            )
        )
        return {name: store.attach(name) for name in (STATE_SEGMENT, COMPUTED_SEGMENT)}

    def close(self) -> None:
        """Close the streams and wake both loops."""
        self._streams.close()

    def _broadcast_loads(
        self, num_steps: int, announce: RingReader, memory: Mapping[str, Slot]
    ) -> None:
        for step in range(num_steps):
            for number in range(len(self._visits)):
                if announce.acquire() is None:
                    raise StreamClosedError(f"Stream {ANNOUNCE!r} ended before the last step.")
                slot = self._broadcast.reserve()
                if self._copies:
                    self._copy_loads(self._deliveries.row(step, number), memory, slot)
                self._broadcast.publish()
                announce.release()
            if not self._adds_up:
                self._record(step + 1)
        self._broadcast.end()

    def _copy_loads(self, row: int, memory: Mapping[str, Slot], slot: Slot) -> None:
        for copy in self._copies[row]:
            source = memory[copy.segment][copy.source : copy.source + copy.num_bytes]
            slot[copy.target : copy.target + copy.num_bytes] = source
            self._num_bytes_copied += copy.num_bytes

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
                    self._sums.publish()
                for contribution in contributions:
                    contribution.release()
            self._record(step + 1)
        self._sums.end()

    def _record(self, num_steps: int) -> None:
        self._context.progress.record(
            step=num_steps,
            readings={"wsc_swarmx_broadcast_copied_bytes": float(self._num_bytes_copied)},
        )
