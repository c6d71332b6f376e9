"""One session of a CS-2: performs the actions of the machine, on streams and executor."""

import contextlib
import os
from collections import deque
from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray

from appliance.core.cluster.readings import (
    INPUT_WAIT,
    INPUT_WAIT_NOW,
    RESIDENT_WEIGHTS,
    WALL_STEP,
    WALL_TOTAL,
)
from appliance.core.cluster.run import RunSchedule
from appliance.core.cluster.swarmx_tree import TreePod
from appliance.core.errors import StreamClosedError
from appliance.numerics.choices import Choices
from appliance.pods.allocator import give_back_free_memory
from appliance.pods.pod_sessions import Loops
from appliance.pods.role_context import PodContext
from appliance.streams.protocol import RingReader
from appliance.streams.stream_topology import (
    batches,
    broadcast,
    broadcast_readers,
    gradients,
    num_ring_slots,
    store,
)
from workers.csx.generation.account import GenerationAccount
from workers.csx.memory_accounting import MemoryAccount
from workers.csx.pace import Pace
from workers.csx.samples.strands import Strands
from workers.csx.simulated import SimulatedTime
from workers.csx.system_plan import SystemPlan
from workers.csx.work_order import Action, CsxState, after, next_action

_WAIT_SLICE_SECONDS = 1.0
"""How often a late batch is reported; heartbeats are no more frequent."""


def default_threads(num_systems: int) -> int:
    """Return the threads of one system when all share this machine's cores evenly."""
    return max(1, len(os.sched_getaffinity(0)) // num_systems)


class CsxSession:
    """A session of a chief pod; see `appliance.pods.pod_sessions.Session`.

    Args:
        context: The pod; its index is the system's number.
        number: The session's number.
        part: What the system keeps of the plan.
        broadcast_from: The SwarmX pod that sends the loads.
        num_threads: Threads of each strand.
        device: Where to compute; None is the processor.
        simulated: What a real wafer would take.

    Attributes:
        number: The session's number.
        num_threads: Threads of each strand.
        choices: What its operations are computed by; fixed once steps run.
    """

    def __init__(
        self,
        context: PodContext,
        *,
        number: int,
        part: SystemPlan,
        broadcast_from: TreePod,
        num_threads: int,
        device: torch.device | None,
        simulated: SimulatedTime,
    ) -> None:
        self._context, self.number = context, number
        self._broadcast_stream = broadcast(broadcast_from.index)
        self._broadcast_readers = broadcast_readers(broadcast_from)
        # A SwarmX pod among the readers takes whole slots.
        self._may_scatter = all(child.pod is None for child in broadcast_from.children)
        self._step_names, self._visits = part.step_names, part.visits
        self.num_threads, self.choices = num_threads, Choices()
        with self.choices.collecting():
            self._executor = Strands(
                part.strands,
                sums=part.sums,
                sum_spans=part.sum_spans,
                largest_sum_bytes=part.largest_sum_bytes,
                num_threads=num_threads,
                device=device,
            )
        self._deliveries, self._load_bytes = part.deliveries, part.load_bytes
        self._unpacked_bytes = part.unpacked_bytes
        self._sum_bytes = part.sum_bytes
        self._loads, self._batches = part.loads, part.batch
        self._residents, self._mapped, self._sparse = part.residents, part.mapped, part.sparse
        self._unpacking = part.unpacking
        self._account = MemoryAccount()
        self._simulated = simulated
        self._pace = Pace(simulated.paced_step_seconds, context.clock)
        self._generation = GenerationAccount()
        self._pace_wait_seconds = 0.0
        context.progress.record(readings=simulated.readings(0))
        self._held: deque[NDArray[np.uint8]] = deque()
        self._sum_slots: deque[NDArray[np.uint8]] = deque()
        self._num_begun = 0
        self._first_step = 0
        self._starved_steps = 0
        self._input_wait_seconds = 0.0
        self._weight_wait_seconds = 0.0
        sum_bytes = part.largest_sum_bytes
        if part.sparse is not None:
            sum_bytes = max(sum_bytes, part.sparse.largest_sum_bytes)
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
        context, number = self._context, self.number
        loads_ring = self._streams.enter_context(
            context.connect_ring(
                number,
                self._broadcast_stream,
                readers=self._broadcast_readers,
                scatter=self._residents.scatter if self._may_scatter else None,
            )
        )
        if loads_ring.area.nbytes:
            self._residents.receive_in(loads_ring.area)
        if self._mapped is not None:
            for index in range(self._mapped.num_shards):
                attached = context.attach_store(number, store(index), is_read_only=True)
                self._mapped.attach(index, self._streams.enter_context(attached))
        batch_ring = self._streams.enter_context(
            context.connect_ring(number, batches(context.spec.index))
        )
        self._first_step = schedule.first_step
        if schedule.simulated is not None:
            self._simulated = self._simulated.told(schedule.simulated)
            self._pace = Pace(self._simulated.paced_step_seconds, context.clock)
            context.progress.record(readings=self._simulated.readings(0))
        return {"compute": lambda: self._compute_all(schedule.num_steps, loads_ring, batch_ring)}

    def close(self) -> None:
        """Close the streams and wake the loop."""
        self._pace.close()
        self._streams.close()

    def _compute_all(self, num_steps: int, loads_ring: RingReader, batch_ring: RingReader) -> None:
        with self._executor.running():
            self._run(num_steps, loads_ring, batch_ring)

    def _run(self, num_steps: int, loads_ring: RingReader, batch_ring: RingReader) -> None:
        give_back_free_memory()  # the plan's text, and what its loading took
        clock = self._context.clock
        state = CsxState(
            num_steps=num_steps,
            num_layer_steps=len(self._visits),
            runs_ahead=self._executor.runs_ahead,
        )
        self._pace.begin()
        first = began = clock.monotonic_seconds()
        while (action := next_action(state)) is not Action.END:
            arrived = True
            match action:
                case Action.TAKE_BATCH:
                    self._take_batch(state.step, batch_ring)
                case Action.ACQUIRE:
                    self._acquire(state.step, state.layer_step, loads_ring)
                case Action.PREFETCH:
                    arrived = self._prefetch(state.next_step, state.next_layer_step, loads_ring)
                case Action.BEGIN:
                    self._begin(state.step, state.layer_step, self._gradients.reserve())
                case Action.BEGIN_AHEAD:
                    arrived = self._begin_ahead(state.step, state.next_layer_step)
                case Action.FINISH:
                    self._finish(state.step, state.layer_step)
                case Action.RELEASE:
                    self._held.popleft()
                    self._account.drop_weights()
                    loads_ring.release()
                case Action.DROP_BATCH:
                    self._generation.add(self._executor.generated())
                    self._executor.end_step()
                    batch_ring.release()
                    simulated_steps = self._generation.steps(state.step + 1)
                    self._pace_wait_seconds += self._pace.wait(simulated_steps)
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
        self._executor.begin_step(self._first_step + step, self._batches.of(slot, 0))

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

    def _acquire(self, step: int, number: int, loads_ring: RingReader) -> None:
        if not self._prefetch(step, number, loads_ring):
            began = self._context.clock.monotonic_seconds()
            self._hold(step, number, loads_ring.acquire())
            self._weight_wait_seconds += self._context.clock.monotonic_seconds() - began

    def _prefetch(self, step: int, number: int, loads_ring: RingReader) -> bool:
        try:
            slot = loads_ring.acquire(0.0)
        except TimeoutError:
            return False
        self._hold(step, number, slot)
        return True

    def _hold(self, step: int, number: int, slot: NDArray[np.uint8] | None) -> None:
        if slot is None:
            name = self._step_names[self._visits[number].layer_step]
            raise StreamClosedError(
                f"Stream {self._broadcast_stream!r} ended before the weights of {name!r}."
            )
        self._held.append(slot)
        row = self._deliveries.row(step, number)
        num_bytes = self._load_bytes[row]
        if self._sparse is not None and self._sparse.is_sparse(row):
            num_bytes = self._sparse.load_bytes(row, slot)
        self._account.take_weights(num_bytes + self._unpacked_bytes[row])

    def _begin(self, step: int, number: int, slot: NDArray[np.uint8]) -> None:
        visit = self._visits[number]
        row, arrived = self._deliveries.row(step, number), self._held[self._num_begun]
        self._sum_slots.append(slot)
        if self._mapped is not None:
            loads = self._mapped.loads(visit.layer_step)
        elif self._sparse is not None and self._sparse.is_sparse(row):
            loads = self._residents.loads(visit.layer_step, self._sparse.sent(row, arrived))
        else:
            loads = self._residents.loads(visit.layer_step, self._loads.of(arrived, row))
        sizes: Mapping[str, int] = {}
        if self._sparse is not None:
            loads, slot, sizes = self._sparse.begin(row, visit.layer_step, arrived, loads, slot)
        self._executor.begin(visit, self._unpacking.unpack(loads), slot, sizes)
        self._num_begun += 1

    def _begin_ahead(self, step: int, number: int) -> bool:
        try:
            slot = self._gradients.reserve(0.0, ahead=1)
        except TimeoutError:
            return False
        self._begin(step, number, slot)
        return True

    def _finish(self, step: int, number: int) -> None:
        self._executor.finish()
        self._num_begun -= 1
        layer_step, slot = self._visits[number].layer_step, self._sum_slots.popleft()
        num_bytes = None if self._sparse is None else self._sparse.finish(layer_step, slot)
        self._gradients.publish(self._sum_bytes[layer_step] if num_bytes is None else num_bytes)
        if step == 0:
            # Shapes are static: every later step holds the same.
            self._account.count_activations(self._executor.activations())

    def _record(self, num_steps: int, step_seconds: float, wall_seconds: float) -> None:
        self._context.progress.record(
            step=num_steps,
            readings={
                **self._account.readings(),
                **self._simulated.readings(self._generation.steps(num_steps)),
                **self._generation.readings(self._simulated, wall_seconds),
                RESIDENT_WEIGHTS: float(self._residents.num_bytes),
                "wsc_csx_kept_weight_bytes": float(self._residents.num_kept_bytes),
                WALL_STEP: step_seconds,
                WALL_TOTAL: wall_seconds,
                "wsc_csx_pace_wait_seconds": self._pace_wait_seconds,
                INPUT_WAIT: self._input_wait_seconds,
                "wsc_csx_input_starved_steps_total": float(self._starved_steps),
                "wsc_csx_weight_wait_seconds": self._weight_wait_seconds,
            },
        )
