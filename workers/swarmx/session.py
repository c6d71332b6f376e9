"""One session of a SwarmX pod: a loop that broadcasts and a loop that reduces."""

import contextlib
from collections.abc import Callable, Sequence

from appliance.core.cluster.run import RunSchedule
from appliance.core.cluster.swarmx_tree import TreeChild, swarmx_tree
from appliance.core.errors import StreamClosedError
from appliance.core.plans.loads.residency import deliveries
from appliance.core.plans.micro_batches import Visit, visits
from appliance.core.plans.plan import Plan
from appliance.core.plans.shard_plans import shard_plans
from appliance.core.pods.pod_options import SwarmxPodOptions
from appliance.pods.pod_sessions import Loops
from appliance.pods.role_context import PodContext
from appliance.streams.protocol import RingReader, RingWriter
from appliance.streams.stream_topology import (
    adds_up,
    announce,
    broadcast,
    broadcast_readers,
    gradients,
    num_ring_slots,
    store,
    sums,
    totals,
)
from workers.swarmx.broadcast_rows import BroadcastRows
from workers.swarmx.loads import Loads, RelayedLoads, ShardLoads, StoredLoads
from workers.swarmx.reduction import Accumulation, Pending, Reduction, Slot
from workers.swarmx.sum_parts import SumParts


class BroadcastReduceSession:
    """A session of a broadcastreduce pod; see `appliance.pods.pod_sessions.Session`.

    Args:
        context: The pod; its index is its place in the tree.
        number: The session's number.
        plan: A verified plan.
        num_systems: Number of CS-2 systems.
        fan_out: Children of a SwarmX pod at most.
        num_shards: Shards of MemoryX.
    """

    def __init__(
        self,
        context: PodContext,
        *,
        number: int,
        plan: Plan,
        num_systems: int,
        fan_out: int,
        num_shards: int,
    ) -> None:
        self._context, self._number, self._num_shards = context, number, num_shards
        self._num_systems, self._fan_out = num_systems, fan_out
        self._place = swarmx_tree(num_systems, fan_out=fan_out)[context.spec.index]
        self._visits = visits(plan, num_systems)
        options = context.spec.options_of(SwarmxPodOptions)
        self._deliveries = deliveries(plan, num_systems, keep_bytes=options.keep_weight_bytes)
        mode = options.streams
        shards = [shard.plan for shard in shard_plans(plan, num_shards)]
        self._rows = BroadcastRows(plan, shards, self._deliveries.rows, mode)
        self._adds_up = adds_up(plan, num_systems, num_shards)
        self._reduction = Reduction(len(self._place.children))
        self._sums = SumParts(plan, shards)
        self._accumulation = Accumulation(self._sums.largest_bytes)
        self._num_bytes_copied = self._num_bytes_reduced = 0
        with contextlib.ExitStack() as stack:
            self._broadcast = self._serve(
                stack,
                broadcast(self._place.index),
                self._rows.largest_bytes,
                num_readers=context.streams.num_readers(broadcast_readers(self._place)),
            )
            self._targets = self._serve_sums(stack) if self._adds_up else ()
            self._streams = stack.pop_all()

    @property
    def _is_root(self) -> bool:
        return self._place.parent is None

    def _serve_sums(self, stack: contextlib.ExitStack) -> tuple[RingWriter, ...]:
        """Serve what goes up: to the pod above, or to each shard what it needs."""
        if not self._is_root:
            largest = max(self._sums.largest_bytes, default=0)
            return (self._serve(stack, sums(self._place.index), largest),)
        return tuple(
            self._serve(stack, totals(shard), self._sums.largest_of(shard))
            for shard in range(self._num_shards)
        )

    def _serve(
        self, stack: contextlib.ExitStack, stream: str, slot_bytes: int, *, num_readers: int = 1
    ) -> RingWriter:
        ring = self._context.serve_ring(
            self._number,
            stream,
            num_slots=num_ring_slots(slot_bytes),
            slot_bytes=slot_bytes,
            num_readers=num_readers,
        )
        return stack.enter_context(ring)

    def start(self, schedule: RunSchedule) -> Loops:
        """Connect to what is above and to every child, and return the two loops."""
        loads = self._connect_loads()
        loops: dict[str, Callable[[], None]] = {
            "broadcast": lambda: self._broadcast_loads(schedule.num_steps, loads)
        }
        if self._adds_up:
            names = [_sums_of(child) for child in self._place.children]
            contributions = [self._connect(name) for name in names]
            loops["reduce"] = lambda: self._reduce_sums(schedule.num_steps, names, contributions)
        return loops

    def close(self) -> None:
        """Close the streams and wake both loops."""
        self._streams.close()

    def _connect(self, stream: str) -> RingReader:
        return self._streams.enter_context(self._context.connect_ring(self._number, stream))

    def _connect_loads(self) -> Loads:
        if self._place.parent is not None:
            name = broadcast(self._place.parent)
            above = swarmx_tree(self._num_systems, fan_out=self._fan_out)[self._place.parent]
            stream = self._context.connect_ring(
                self._number, name, readers=broadcast_readers(above)
            )
            return RelayedLoads(self._streams.enter_context(stream), self._rows, name=name)
        shards = [self._connect_shard(shard) for shard in range(self._num_shards)]
        return StoredLoads(shards, self._rows)

    def _connect_shard(self, shard: int) -> ShardLoads:
        attached = self._context.attach_store(self._number, store(shard), is_read_only=True)
        return ShardLoads(
            name=announce(shard),
            announce=self._connect(announce(shard)),
            store=self._streams.enter_context(attached),
        )

    def _broadcast_loads(self, num_steps: int, loads: Loads) -> None:
        for step in range(num_steps):
            for number in range(len(self._visits)):
                loads.wait()
                copied = loads.copy(self._deliveries.row(step, number), self._broadcast.reserve())
                self._num_bytes_copied += copied.num_copied
                self._broadcast.publish(copied.num_bytes)
                loads.release()
            if not self._adds_up:
                self._record(step + 1)
        self._broadcast.end()

    def _reduce_sums(
        self, num_steps: int, names: Sequence[str], contributions: Sequence[RingReader]
    ) -> None:
        def take(child: int) -> Slot:
            slot = contributions[child].acquire()
            if slot is None:
                raise StreamClosedError(f"Stream {names[child]!r} ended before the last step.")
            return slot

        for step in range(num_steps):
            for visit in self._visits:
                self._reduce_visit(visit, take)
                for contribution in contributions:
                    contribution.release()
            self._record(step + 1)
        for target in self._targets:
            target.end()

    def _reduce_visit(self, visit: Visit, take: Callable[[int], Slot]) -> None:
        """Add up what the children send for a visit, and send it on where it is complete.

        Only the root adds micro-batches up, each over all systems, so that a sum's order is the
        same however many pods there are.
        """
        first = take(0)
        layout = self._sums.of(visit.layer_step, first)

        self._num_bytes_reduced += layout.up.num_bytes * len(self._place.children)

        def again(child: int) -> Slot:
            return take(child) if child else first

        pending: Pending | None = self._reduction.run(layout.whole, again)
        if self._is_root and pending is not None:
            pending = self._accumulation.add(visit, layout.whole, pending)
        if pending is None:
            return
        wanted = layout.by_shard if self._is_root else (layout.up,)
        for target, part in zip(self._targets, wanted, strict=True):
            slot = target.reserve()
            pending.write(slot, part.parts)
            slot[: layout.header_bytes] = first[: layout.header_bytes]
            target.publish(part.num_bytes)

    def _record(self, num_steps: int) -> None:
        self._context.progress.record(
            step=num_steps,
            readings={
                "wsc_swarmx_broadcast_copied_bytes": float(self._num_bytes_copied),
                "wsc_swarmx_reduced_bytes": float(self._num_bytes_reduced),
                "wsc_swarmx_broadcast_sent_bytes": float(
                    self._context.streams.num_bytes_sent(self._number, broadcast(self._place.index))
                ),
            },
        )


def _sums_of(child: TreeChild) -> str:
    """Return the stream in which a child sends what it has."""
    return gradients(child.first_system) if child.pod is None else sums(child.pod)
