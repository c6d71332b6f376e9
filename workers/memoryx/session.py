"""One session of MemoryX: a loop that announces what may be streamed, a loop that updates.

The two run in threads of their own and share a count of events (`workers.memoryx.readiness`): the
announcing loop waits until enough of them have happened for a layer step's loads to be ready. That
alone lets step t+1 begin while step t is still being updated. Where MemoryX has several shards, the
updating loop also sends the others the values that they need (`workers.memoryx.exchange`).
"""

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from appliance.core.cluster.readings import (
    MEMORYX_EXCHANGE_WAIT,
    MEMORYX_MASK_CHANGES,
    MEMORYX_SUMS_WAIT,
    MEMORYX_UPDATE,
)
from appliance.core.cluster.run import RunSchedule
from appliance.core.errors import StreamClosedError
from appliance.core.plans.deferred_sums import deferred_sums
from appliance.core.plans.micro_batches import visits
from appliance.core.plans.plan import STEP_START, Plan
from appliance.core.plans.shard_plans import ShardPlan
from appliance.core.plans.sparse.as_executed import matrix_shapes
from appliance.core.plans.sparse.gathered import on_state
from appliance.core.plans.sparse.nonzeros import on_nonzeros
from appliance.core.plans.state_shards import HOME
from appliance.numerics.elements import torch_dtype
from appliance.pods.pod_sessions import Loops
from appliance.pods.role_context import PodContext
from appliance.streams.protocol import RingReader
from appliance.streams.sparse_slots import COUNTS, Counts
from appliance.streams.stream_topology import (
    NUM_ANNOUNCE_SLOTS,
    NUM_OUTPUT_SLOTS,
    OUTPUTS,
    STEP_FIELD,
    adds_up,
    announce,
    gradients,
    load_slots,
    output_layout,
    sum_slots,
    totals,
)
from appliance.streams.torch_views import SlotTensors, Tensors, tensors_of
from workers.memoryx.exchange import Exchange
from workers.memoryx.mask_decision import MaskDecision
from workers.memoryx.on_disk.checked_steps import CheckedSteps
from workers.memoryx.on_disk.paging import Paged, Paging
from workers.memoryx.packed_copies import PackedCopies
from workers.memoryx.readiness import Readiness
from workers.memoryx.tensor_store import TensorStore
from workers.memoryx.updates import Updates

_PAGED_ANNOUNCE_SLOTS = 2
"""Each is a layer step that is read ahead; more would push out of memory what is needed sooner."""


class EventCount:
    """How many events of the session have happened; threads wait for it to grow."""

    def __init__(self) -> None:
        self._count = 0
        self._is_closed = False
        self._changed = threading.Condition()

    def advance(self) -> None:
        """Note one more event."""
        with self._changed:
            self._count += 1
            self._changed.notify_all()

    def wait_for(self, count: int) -> bool:
        """Wait until so many events have happened; return False if the session ends before."""
        if self._count < count:
            with self._changed:
                self._changed.wait_for(lambda: self._is_closed or self._count >= count)
        return not self._is_closed

    def close(self) -> None:
        """Wake everyone who waits."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSteps:
    """What a shard needs to know of the steps of the whole job.

    Attributes:
        layer_steps: The layer step of each announcement of a step, in order.
        adds_up: Whether SwarmX adds the sums up, or sorts them by shard.
    """

    layer_steps: tuple[int, ...]
    adds_up: bool

    @classmethod
    def of(cls, plan: Plan, num_systems: int, num_shards: int) -> "SessionSteps":
        """Return that of a job, given its whole plan."""
        return cls(
            layer_steps=tuple(visit.layer_step for visit in visits(plan, num_systems)),
            adds_up=adds_up(plan, num_systems, num_shards),
        )


class WeightSession:
    """A session of a weight pod; see `appliance.pods.pod_sessions.Session`.

    Args:
        number: The session's number.
        shard: The pod's part of a verified plan.
        steps: What the whole plan says.
        store: Its tensors; they outlive the session until the next one is loaded.
        num_threads: Threads that torch may use for an update.
    """

    def __init__(
        self,
        context: PodContext,
        *,
        number: int,
        shard: ShardPlan,
        steps: SessionSteps,
        store: TensorStore,
        num_threads: int,
    ) -> None:
        plan = shard.plan
        self._context, self._number, self._plan = context, number, plan
        self._store, self._num_threads = store, num_threads
        self._decision = MaskDecision(plan, shapes=matrix_shapes(plan), state=store.state)
        self._readiness = Readiness(plan)
        self._layer_steps = steps.layer_steps
        self._sent = {update: shard.messages[number] for update, number in shard.sends.items()}
        self._load_slots = load_slots(plan, [step.loads for step in plan.layer_steps])
        self._weight_of = {
            name: sparse.weight
            for sparse in plan.sparse
            for name in (*sparse.loads, *sparse.totals)
        }
        self._updates = self._make_updates(plan)
        self._packed = self._packed_copies(plan)
        self._has_outputs = shard.index == HOME
        self._overwritten = tuple(
            tuple(commit.state for commit in update.commits) for update in plan.updates
        )
        self._output_layout = output_layout(plan)
        self._sums_stream = totals(shard.index) if steps.adds_up else gradients(0)
        self._sum_slots = sum_slots(plan)
        self._sum_tensors = self._make_sum_tensors()
        gathered = {name for each in plan.sparse if each.is_gathered for name in each.totals}
        self._gathered_sums = frozenset(
            index
            for index in range(len(plan.layer_steps))
            if not gathered.isdisjoint(self._sum_slots.names(index))
        )
        self._events = EventCount()
        self._update_seconds = self._sums_wait_seconds = 0.0
        self._idle = threading.Event()
        self._idle.set()
        self._paging: Paging | None = None
        self._checked = self._make_checked(store)
        is_on_disk = store.backing.is_on_disk
        with contextlib.ExitStack() as stack:
            self._announce = stack.enter_context(
                context.serve_ring(
                    number,
                    announce(shard.index),
                    num_slots=_PAGED_ANNOUNCE_SLOTS if is_on_disk else NUM_ANNOUNCE_SLOTS,
                    slot_bytes=self._load_slots.largest_header_bytes,
                )
            )
            self._exchange = Exchange(context, number, shard)
            stack.callback(self._exchange.close)
            if self._has_outputs:
                self._outputs = stack.enter_context(
                    context.serve_ring(
                        number,
                        OUTPUTS,
                        num_slots=NUM_OUTPUT_SLOTS,
                        slot_bytes=self._output_layout.num_bytes,
                    )
                )
            if is_on_disk:
                self._paging = self._make_paging(store)
                stack.callback(self._paging.close)
            self._streams = stack.pop_all()

    def start(self, schedule: RunSchedule) -> Loops:
        """Connect to the sums and return the two loops.

        Raises:
            ClusterError: The disk has no room for the run's checkpoints.
        """
        self._store.require_complete()
        self._store.snapshots.require_room(schedule)
        if self._plan.sparse:
            self._hold_nonzeros()
        self._packed.make_all()
        if self._checked is not None:
            self._checked.begin()
        sums = self._streams.enter_context(
            self._context.connect_ring(self._number, self._sums_stream)
        )
        self._exchange.connect()
        self._idle.clear()
        return {
            "announce": lambda: self._announce_loads(schedule.num_steps),
            "update": lambda: self._update(schedule, sums),
        }

    def _make_paging(self, store: TensorStore) -> Paging:
        state = Paged(store.layout, store.memory, store.descriptor)
        packed = Paged(store.packed_layout, store.packed_memory, store.packed_descriptor)
        room = store.backing.room_bytes
        return Paging(self._plan, state, packed, self._layer_steps, room_bytes=room)

    def _make_checked(self, store: TensorStore) -> CheckedSteps | None:
        if store.checksums is None:
            return None
        return CheckedSteps(self._plan, store.checksums, self._layer_steps)

    def _make_updates(self, plan: Plan) -> Updates:
        store, narrowed = self._store, self._store.sparse.narrowed
        return Updates(
            plan,
            state=narrowed(store.state, plan),
            computed=narrowed(store.computed, plan),
            deferred_sums={
                **self._later_sums(plan),
                **narrowed(store.deferred_sums, plan),
            },
            sent=self._sent,
            gathers=self._gathers(plan),
        )

    def _packed_copies(self, plan: Plan) -> PackedCopies:
        values = {**self._store.state, **self._store.computed}
        narrowed = self._store.sparse.narrowed(values, plan)
        gathered = self._store.gathered.names
        packed = {n: tensor for n, tensor in self._store.packed.items() if n not in gathered}
        return PackedCopies(plan, values=narrowed, packed=packed)

    def _later_sums(self, plan: Plan) -> Tensors:
        """Return memory for the sums that only a plan of non-zeros reads after a later layer step.

        Where the whole plan masks a sum when it arrives and reads the product later, that plan
        reads the sum itself, since masking changes nothing any more.
        """
        return {
            name: torch.empty(plan.types[name].shape, dtype=torch_dtype(plan.types[name].dtype))
            for name in deferred_sums(plan)
            if name not in self._store.deferred_sums
        }

    def _gathers(self, plan: Plan) -> Mapping[str, Callable[[torch.Tensor], torch.Tensor]]:
        """Return what makes of sums what the update part reads.

        Those that arrive whole but of which only non-zeros are used are cut; non-zeros of which
        it reads the whole get their zeros.
        """
        sparse, gathered = self._store.sparse, self._store.gathered
        masked = {name: each.weight for each in self._plan.sparse for name in each.masked_totals}
        cut = {
            name: partial(sparse.gather, weight)
            for name, weight in masked.items()
            if name not in self._weight_of and weight in sparse.counts
        }
        filled = {
            name: partial(gathered.whole, each.weight)
            for each in self._plan.sparse
            if each.is_gathered
            for name in each.totals
        }
        return {**cut, **filled}

    def _make_sum_tensors(self) -> SlotTensors:
        slots = self._sum_slots
        return SlotTensors(
            tuple(
                slots.layout(index, self._counts(slots.names(index)))
                for index in range(len(self._plan.layer_steps))
            )
        )

    def _counts(self, names: Sequence[str]) -> Counts:
        """Return how many values there are of loads or sums; 0 as long as nobody knows."""
        held = {**self._store.sparse.held, **self._store.gathered.held}
        weights = [self._weight_of[name] for name in names]
        return tuple(held[each].num_values if each in held else 0 for each in weights)

    def _load_counts(self, layer_step: int) -> Counts:
        """Return what an announcement says: values of loads, and of gradients where it is asked."""
        counts = self._counts(self._load_slots.names(layer_step))
        asking = self._load_slots.asking(layer_step)
        asked = (
            self._decision.num_asked(self._weight_of[name], count)
            for name, count in zip(asking, self._counts(asking), strict=True)
        )
        return (*counts, *asked)

    def _hold_nonzeros(self) -> None:
        """Make ready for the values that the masks let through, now that the masks are known."""
        sparse, checksums = self._store.sparse, self._store.checksums
        if checksums is None:
            sparse.hold()
        else:
            checksums.hold_nonzeros(sparse)
        self._store.gathered.gather_all()
        plan = on_nonzeros(on_state(self._plan), sparse.counts)
        self._readiness = Readiness(plan, once_begun=self._decision.layer_steps)
        self._updates = self._make_updates(plan)
        self._packed = self._packed_copies(plan)
        self._sum_tensors = self._make_sum_tensors()

    def wait_until_idle(self) -> None:
        """Wait until no step changes the state any more."""
        self._idle.wait()

    def close(self) -> None:
        """Close the streams and wake both loops."""
        self._events.close()
        self._store.snapshots.close()
        self._streams.close()

    def _announce_loads(self, num_steps: int) -> None:
        for step in range(num_steps):
            for position, layer_step in enumerate(self._layer_steps):
                if self._paging is not None:
                    self._paging.before_announcing(position)
                if self._checked is not None:
                    self._checked.before_announcing(position)
                if not self._events.wait_for(self._readiness.events_needed(step, layer_step)):
                    return
                if self._checked is not None:
                    self._checked.require_loads(position)
                slot = self._announce.reserve()
                counts = self._load_counts(layer_step)
                num_bytes = self._load_slots.header_bytes(layer_step)
                slot[:num_bytes].view(np.int64)[...] = counts
                self._announce.publish(num_bytes)
        self._announce.end()

    def _update(self, schedule: RunSchedule, sums: RingReader) -> None:
        torch.set_num_threads(self._num_threads)
        try:
            for step in range(schedule.num_steps):
                began = self._context.clock.monotonic_seconds()
                waited = self._waited_seconds
                self._update_step(schedule, step, sums)
                if schedule.keeps_state(step):
                    self._store.snapshots.keep(step + 1)
                spent = self._context.clock.monotonic_seconds() - began
                self._update_seconds += spent - (self._waited_seconds - waited)
                self._context.progress.record(step=step + 1, readings=self._readings())
            self._store.snapshots.settle()
            self._exchange.end()
            if self._has_outputs:
                self._outputs.end()
        finally:
            self._idle.set()

    def _update_step(self, schedule: RunSchedule, step: int, sums: RingReader) -> None:
        keeps_outputs = self._has_outputs and schedule.keeps_outputs(step)
        outputs = self._reserve_outputs(step) if keeps_outputs else {}
        self._decision.begin(schedule.first_step + step)
        self._updates.begin(schedule.first_step + step, outputs)
        self._exchange.send(STEP_START, self._updates)
        for point in self._readiness.points:
            if point.layer_step != STEP_START:
                self._arrive(point.layer_step, self._take_sums(sums, point.layer_step))
            self._events.advance()
            for update in point.updates:
                self._run(update)
                self._events.advance()
            if point.layer_step != STEP_START:
                self._updates.depart(point.layer_step)
                sums.release()
        self._exchange.take(len(self._plan.updates), self._updates)
        if keeps_outputs:
            self._outputs.publish()

    def _arrive(self, layer_step: int, sums: Tensors) -> None:
        if self._checked is not None:
            self._checked.before_sums(layer_step)
        self._updates.arrive(layer_step, sums)
        self._packed.after_sums(layer_step)
        if self._checked is not None:
            self._checked.after_sums(layer_step)

    def _run(self, update: int) -> None:
        self._exchange.take(update, self._updates)
        if self._paging is not None:
            self._paging.before_update(update)
        if self._checked is not None:
            self._checked.before_update(update)
        self._store.snapshots.preserve(self._overwritten[update])
        self._updates.run(update)
        self._packed.after_update(update)
        self._store.gathered.gather_after(update)
        self._exchange.send(update, self._updates)
        if self._checked is not None and self._paging is not None:
            self._checked.after_update(update, partial(self._paging.after_update, update))

    @property
    def _waited_seconds(self) -> float:
        return self._sums_wait_seconds + self._exchange.wait_seconds

    def _readings(self) -> Mapping[str, float]:
        return {
            MEMORYX_UPDATE: self._update_seconds,
            MEMORYX_SUMS_WAIT: self._sums_wait_seconds,
            MEMORYX_MASK_CHANGES: float(self._store.gathered.num_mask_changes),
            MEMORYX_EXCHANGE_WAIT: self._exchange.wait_seconds,
            "wsc_memoryx_state_bytes": float(self._store.num_state_bytes),
            "wsc_memoryx_state_on_disk": float(self._store.backing.is_on_disk),
            "wsc_memoryx_snapshot_copied_bytes": float(self._store.snapshots.num_bytes_copied),
        }

    def _take_sums(self, sums: RingReader, layer_step: int) -> Tensors:
        began = self._context.clock.monotonic_seconds()
        slot = sums.acquire()
        self._sums_wait_seconds += self._context.clock.monotonic_seconds() - began
        if slot is None:
            name = self._plan.layer_steps[layer_step].name
            raise StreamClosedError(
                f"Stream {self._sums_stream!r} ended before the sums of {name!r}."
            )
        if layer_step in self._gathered_sums:
            counts = self._sum_slots.counts(layer_step, slot)
            found = tensors_of(self._sum_slots.layout(layer_step, counts), slot)
        else:
            found = self._sum_tensors.of(slot, layer_step)
        found.pop(COUNTS, None)
        return found

    def _reserve_outputs(self, step: int) -> Mapping[str, torch.Tensor]:
        tensors = tensors_of(self._output_layout, self._outputs.reserve())
        tensors.pop(STEP_FIELD).fill_(step)
        return tensors
