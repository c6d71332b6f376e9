"""One session of a CS-2: carries out what the machine asks for, on streams and executor."""

import contextlib
import os
from collections import deque

import numpy as np
from numpy.typing import NDArray

from appliance.core.errors import StreamClosedError
from appliance.core.micro_batches import num_micro_batches, visits
from appliance.core.plan import Plan
from appliance.core.readings import (
    INPUT_WAIT,
    INPUT_WAIT_NOW,
    RESIDENT_WEIGHTS,
    WALL_STEP,
    WALL_TOTAL,
)
from appliance.core.residency import deliveries
from appliance.core.run import RunSchedule
from appliance.core.sharding import BatchShard
from appliance.pods.context import PodContext
from appliance.pods.sessions import Loops
from appliance.streams.protocol import RingReader
from appliance.streams.topology import (
    BROADCAST,
    COMPUTED_SEGMENT,
    STATE_SEGMENT,
    STREAMS_OPTION,
    StreamMode,
    batch_layout,
    batches,
    computed_layout,
    gradients,
    largest,
    load_layout,
    num_ring_slots,
    state_layout,
    sum_layout,
)
from appliance.streams.torch_views import SlotTensors, Tensors, tensors_of
from workers.csx.executor import set_compute_threads
from workers.csx.machine import Action, CsxState, after, next_action
from workers.csx.memory import MemoryAccount
from workers.csx.micro_batches import MicroBatches
from workers.csx.pace import Pace
from workers.csx.residents import Residents
from workers.csx.simulated import SimulatedTime

_WAIT_SLICE_SECONDS = 1.0
"""How often a late batch is reported; heartbeats are no more frequent."""


def default_threads(num_systems: int) -> int:
    """Return the threads of one system when all share this machine's cores evenly."""
    return max(1, len(os.sched_getaffinity(0)) // num_systems)


class CsxSession:
    """A session of a chief pod; see `appliance.pods.sessions.Session`.

    Args:
        context: The pod; its index is the system's number.
        number: The session's number.
        plan: A verified plan.
        shard: The system's share of the batch.
        num_systems: Number of systems of the session.
        num_threads: Threads that torch may use for an operation.
        simulated: What a real wafer would take.
    """

    def __init__(
        self,
        context: PodContext,
        *,
        number: int,
        plan: Plan,
        shard: BatchShard,
        num_systems: int,
        num_threads: int,
        simulated: SimulatedTime,
    ) -> None:
        self._context, self._number, self._plan = context, number, plan
        self._num_threads = num_threads
        set_compute_threads(num_threads)
        self._visits = visits(plan, num_systems)
        self._executor = MicroBatches(plan, shard, count=num_micro_batches(plan, num_systems))
        self._deliveries = deliveries(plan, num_systems)
        self._residents = Residents(plan)
        self._load_layouts = tuple(load_layout(plan, row) for row in self._deliveries.rows)
        sum_layouts = tuple(sum_layout(plan, step) for step in plan.layer_steps)
        self._loads = SlotTensors(self._load_layouts)
        self._sums = SlotTensors(sum_layouts)
        self._sum_bytes = tuple(layout.num_bytes for layout in sum_layouts)
        self._batches = SlotTensors((batch_layout(plan, shard),))
        self._account = MemoryAccount()
        self._simulated = simulated
        self._pace = Pace(simulated.paced_step_seconds, context.clock)
        self._pace_wait_seconds = 0.0
        context.progress.record(readings=simulated.readings(0))
        self._held: deque[NDArray[np.uint8]] = deque()
        self._mode = StreamMode(context.spec.options.get(STREAMS_OPTION) or StreamMode.RING)
        self._mapped: tuple[Tensors, ...] = ()
        self._first_step = 0
        self._starved_steps = 0
        self._input_wait_seconds = 0.0
        self._weight_wait_seconds = 0.0
        sum_bytes = largest(sum_layouts)
        self._streams = contextlib.ExitStack()
        self._gradients = self._streams.enter_context(
            context.serve_ring(
                number,
                gradients(context.spec.index),
                num_slots=num_ring_slots(sum_bytes),
                slot_bytes=sum_bytes,
            )
        )

    def start(self, schedule: RunSchedule) -> Loops:
        """Connect to SwarmX and the input, and return the loop."""
        context, number = self._context, self._number
        broadcast = self._streams.enter_context(context.connect_ring(number, BROADCAST))
        if self._mode is StreamMode.MAPPED:
            self._mapped = self._map_loads()
        batch_ring = self._streams.enter_context(
            context.connect_ring(number, batches(context.spec.index))
        )
        self._first_step = schedule.first_step
        return {"compute": lambda: self._run(schedule.num_steps, broadcast, batch_ring)}

    def _map_loads(self) -> tuple[Tensors, ...]:
        """Return what each layer step loads as views of MemoryX's memory."""
        store = self._streams.enter_context(
            self._context.attach_store(self._number, is_read_only=True)
        )
        tensors = {
            **tensors_of(state_layout(self._plan), store.attach(STATE_SEGMENT)),
            **tensors_of(computed_layout(self._plan), store.attach(COMPUTED_SEGMENT)),
        }
        return tuple(
            {name: tensors[name] for name in step.loads} for step in self._plan.layer_steps
        )

    def close(self) -> None:
        """Close the streams and wake the loop."""
        self._pace.close()
        self._streams.close()

    def _run(self, num_steps: int, broadcast: RingReader, batch_ring: RingReader) -> None:
        set_compute_threads(self._num_threads)
        clock = self._context.clock
        state = CsxState(num_steps=num_steps, num_layer_steps=len(self._visits))
        self._pace.begin()
        first = began = clock.monotonic_seconds()
        while (action := next_action(state)) is not Action.END:
            arrived = True
            match action:
                case Action.TAKE_BATCH:
                    self._take_batch(state.step, batch_ring)
                case Action.ACQUIRE:
                    self._acquire(state.step, state.layer_step, broadcast)
                case Action.PREFETCH:
                    arrived = self._prefetch(state.next_step, state.next_layer_step, broadcast)
                case Action.COMPUTE:
                    self._compute(state.step, state.layer_step)
                case Action.RELEASE:
                    self._held.popleft()
                    self._account.drop_weights()
                    broadcast.release()
                case Action.DROP_BATCH:
                    self._executor.end()
                    batch_ring.release()
                    self._pace_wait_seconds += self._pace.wait(state.step + 1)
                    now = clock.monotonic_seconds()
                    self._record(state.step + 1, now - began, now - first)
                    began = now
            state = after(state, action, arrived=arrived)
        self._gradients.end()

    def _take_batch(self, step: int, batch_ring: RingReader) -> None:
        try:
            slot = batch_ring.acquire(0.0)
        except TimeoutError:
            slot = self._wait_for_batch(batch_ring)
        if slot is None:
            raise StreamClosedError(
                f"Stream {batches(self._context.spec.index)!r} ended before step {step + 1}."
            )
        self._executor.begin(self._first_step + step, self._batches.of(slot, 0))

    def _wait_for_batch(self, batch_ring: RingReader) -> NDArray[np.uint8] | None:
        """Wait for a batch that is late; heartbeats tell how long it has taken so far."""
        clock, before = self._context.clock, self._input_wait_seconds
        began = clock.monotonic_seconds()
        self._starved_steps += 1
        while True:
            try:
                slot = batch_ring.acquire(_WAIT_SLICE_SECONDS)
            except TimeoutError:
                waited = clock.monotonic_seconds() - began
                self._note_input_wait(before + waited, waited)
            else:
                self._note_input_wait(before + clock.monotonic_seconds() - began, 0.0)
                return slot

    def _note_input_wait(self, total_seconds: float, now_seconds: float) -> None:
        self._input_wait_seconds = total_seconds
        readings = {INPUT_WAIT: total_seconds, INPUT_WAIT_NOW: now_seconds}
        self._context.progress.record(readings=readings)

    def _acquire(self, step: int, number: int, broadcast: RingReader) -> None:
        if not self._prefetch(step, number, broadcast):
            began = self._context.clock.monotonic_seconds()
            self._hold(step, number, broadcast.acquire())
            self._weight_wait_seconds += self._context.clock.monotonic_seconds() - began

    def _prefetch(self, step: int, number: int, broadcast: RingReader) -> bool:
        try:
            slot = broadcast.acquire(0.0)
        except TimeoutError:
            return False
        self._hold(step, number, slot)
        return True

    def _hold(self, step: int, number: int, slot: NDArray[np.uint8] | None) -> None:
        if slot is None:
            name = self._plan.layer_steps[self._visits[number].layer_step].name
            raise StreamClosedError(f"Stream {BROADCAST!r} ended before the weights of {name!r}.")
        self._held.append(slot)
        self._account.take_weights(self._load_layouts[self._deliveries.row(step, number)].num_bytes)

    def _compute(self, step: int, number: int) -> None:
        visit = self._visits[number]
        layer_step = visit.layer_step
        if self._mode is StreamMode.MAPPED:
            loads = self._mapped[layer_step]
        else:
            arrived = self._loads.of(self._held[0], self._deliveries.row(step, number))
            loads = self._residents.loads(layer_step, arrived)
        sums = self._sums.of(self._gradients.reserve(), layer_step)
        self._executor.compute(visit, loads, sums)
        self._gradients.publish(self._sum_bytes[layer_step])
        if step == 0:
            # Shapes are static: every later step holds the same.
            self._account.count_activations(self._executor.activations())

    def _record(self, num_steps: int, step_seconds: float, wall_seconds: float) -> None:
        self._context.progress.record(
            step=num_steps,
            readings={
                **self._account.readings(),
                **self._simulated.readings(num_steps),
                RESIDENT_WEIGHTS: float(self._residents.num_bytes),
                WALL_STEP: step_seconds,
                WALL_TOTAL: wall_seconds,
                "wsc_csx_pace_wait_seconds": self._pace_wait_seconds,
                INPUT_WAIT: self._input_wait_seconds,
                "wsc_csx_input_starved_steps_total": float(self._starved_steps),
                "wsc_csx_weight_wait_seconds": self._weight_wait_seconds,
            },
        )
