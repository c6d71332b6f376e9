"""One session as the coordinator sees it: the plan, the store it writes to, its outputs."""

import logging
import threading
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from appliance.coordinator.run.outputs import OutputBuffer
from appliance.coordinator.weights.initial_weights import WeightIngress
from appliance.core.cluster.run import RunSchedule
from appliance.core.errors import NotFoundError, StreamClosedError
from appliance.core.plans.plan import Output, Plan, StateTensor
from appliance.core.plans.shard_plans import shard_plans
from appliance.streams.endpoint import StreamEndpoint
from appliance.streams.ring_reader import SharedMemoryRingReader
from appliance.streams.slot_layout import LayoutItem
from appliance.streams.stream_topology import (
    OUTPUTS,
    STATE_SEGMENT,
    STEP_FIELD,
    output_layout,
    snapshot_segment,
    state_layout,
    store,
)

logger = logging.getLogger(__name__)

Outputs = Mapping[str, NDArray[np.generic]]
_Place = tuple[int, LayoutItem]
"""The shard that holds a state tensor, and where it lies there."""

_SNAPSHOT_POLL_SECONDS = 0.02


class Session:
    """One run of one program.

    Args:
        streams: The coordinator's end of the job's streams.
        number: Counts the job's sessions from 1.
        plan: What is run.
        locate: Asks MemoryX for the segment that holds a state tensor, given by resource name, as
            it was after a step, counted from 1.
    """

    def __init__(
        self,
        streams: StreamEndpoint,
        number: int,
        plan: Plan,
        *,
        num_shards: int,
        locate: Callable[[int, str], str],
    ) -> None:
        self._streams, self.number, self.plan = streams, number, plan
        self._locate = locate
        self.output_buffer = OutputBuffer()
        self.schedule: RunSchedule | None = None
        self.has_fetched = False
        self._outputs = {output.output_name: output for output in plan.outputs}
        self._places: dict[str, _Place] = {}
        self._stores = tuple(streams.attach_store(number, store(s)) for s in range(num_shards))
        self._reader: SharedMemoryRingReader | None = None
        self._thread: threading.Thread | None = None
        self._released: set[int] = set()
        self._closed = threading.Event()
        self.ingress = WeightIngress(plan, self._views(num_shards))

    def _views(self, num_shards: int) -> dict[str, NDArray[np.generic]]:
        """Return the memory of every state tensor, by resource name; notes where each is."""
        found: dict[str, NDArray[np.generic]] = {}
        for shard in shard_plans(self.plan, num_shards):
            layout = state_layout(shard.plan)
            views = layout.views(self._stores[shard.index].attach_to_write(STATE_SEGMENT))
            items = {item.name: item for item in layout.items}
            for tensor in shard.plan.state:
                found[tensor.resource_name] = views[tensor.value]
                self._places[tensor.resource_name] = shard.index, items[tensor.value]
        return found

    def shard_of(self, name: str) -> int:
        """Return the shard of MemoryX that holds a state tensor.

        Raises:
            NotFoundError: The program has none of that name.
        """
        return self._places[self.ingress.tensor(name).resource_name][0]

    def write_back(self) -> tuple[tuple[str, ...], ...]:
        """Bring the tensors that were written here to MemoryX, if it is on another node.

        Returns:
            For each shard, the names of those that it holds.
        """
        written: list[list[str]] = [[] for _ in self._stores]
        for name in self.ingress.written:
            written[self.shard_of(name)].append(name)
        for attached, names in zip(self._stores, written, strict=True):
            attached.write_back(STATE_SEGMENT, [self._places[name][1] for name in names])
        return tuple(map(tuple, written))

    def scalar(self, name: str) -> np.generic:
        """Return the present value of a state tensor that has one element."""
        shard, item = self._places[self.ingress.tensor(name).resource_name]
        found = self._stores[shard].fetch(STATE_SEGMENT, item.offset, item.type.num_bytes)
        (value,) = found.view(item.type.dtype.container)
        assert isinstance(value, np.generic)
        return value

    def read_outputs(self, record: Callable[[int, Outputs], None]) -> None:
        """Connect to the ring of outputs and put what comes on the buffer, in a thread.

        Args:
            record: Told of each step's outputs before they are on the buffer.
        """
        self._reader = self._streams.connect_ring(self.number, OUTPUTS)
        self._thread = threading.Thread(
            target=self._shelve, args=(self._reader, record), name="outputs", daemon=True
        )
        self._thread.start()

    def output(self, name: str) -> Output | None:
        """Return an output of the program; None if it has none of that name."""
        return self._outputs.get(name)

    def fetch_output(
        self, step: int, name: str, is_over: Callable[[], bool]
    ) -> NDArray[np.generic] | None:
        """Return an output once its step is done; see `OutputBuffer.get`."""
        self.has_fetched = True
        return self.output_buffer.get(step, name, is_over)

    def fetch_state(
        self, step: int, tensor: StateTensor, is_over: Callable[[], bool]
    ) -> NDArray[np.generic] | None:
        """Return a state tensor as it was after a step, once that is done.

        Args:
            step: The step, 0-based.
            is_over: Whether the job has ended meanwhile, so that waiting is in vain.

        Returns:
            Its value; None if the job is over.

        Raises:
            NotFoundError: The state after that step is not kept.
        """
        self.has_fetched = True
        if self.schedule is None or not self.schedule.keeps_state(step):
            kept = sorted(self.schedule.checkpoint_steps) if self.schedule is not None else []
            raise NotFoundError(
                f"The state after step {step + 1} is not kept, so {tensor.resource_name!r} cannot "
                f"be fetched; steps that keep it: {kept}.",
                hint="Save checkpoints at steps of the run's checkpoint schedule.",
            )
        self.output_buffer.advance(step)
        shard, item = self._places[tensor.resource_name]
        while not is_over():
            try:
                segment = self._locate(step + 1, tensor.resource_name)
                found = self._stores[shard].fetch(segment, item.offset, item.type.num_bytes)
            except NotFoundError:
                self._closed.wait(_SNAPSHOT_POLL_SECONDS)
                continue
            return found.view(item.type.dtype.container).reshape(item.type.shape)
        return None

    def passed_snapshots(self, step: int) -> list[int]:
        """Return the snapshots, by 1-based step, that a client at this step (0-based) is past.

        Each is named once, whether it has been taken yet or not.
        """
        if self.schedule is None:
            return []
        passed = {number for number in self.schedule.checkpoint_steps if number - 1 < step}
        fresh = sorted(passed - self._released)
        self._released.update(fresh)
        for number in fresh:
            for attached in self._stores:
                attached.detach(snapshot_segment(number))
        return fresh

    def attach(self, shard: int, segment: str) -> NDArray[np.uint8]:
        """Return a segment of a shard's store, as it is now."""
        self._stores[shard].detach(segment)
        return self._stores[shard].attach(segment)

    @property
    def is_started(self) -> bool:
        """Whether its steps have begun."""
        return self._reader is not None

    @property
    def was_cut(self) -> bool:
        """Whether the client fetched outputs, but left before the last step's."""
        if self.schedule is None or not self.has_fetched:
            return False
        return self.output_buffer.furthest < self.schedule.num_steps - 1

    def close(self, reason: str) -> None:
        """Free everything and end every wait."""
        self._closed.set()
        self.output_buffer.close(reason)
        if self._reader is not None:
            self._reader.close()
        if self._thread is not None:
            self._thread.join()
        for attached in self._stores:
            attached.close()

    def _shelve(
        self, reader: SharedMemoryRingReader, record: Callable[[int, Outputs], None]
    ) -> None:
        layout = output_layout(self.plan)
        try:
            while (slot := reader.acquire()) is not None:
                values = {name: np.array(view) for name, view in layout.views(slot).items()}
                reader.release()
                step = int(values.pop(STEP_FIELD))
                record(step, values)
                self.output_buffer.put(step, values)
        except StreamClosedError as error:
            # Whoever broke the stream is reported by its own pod or by the gang.
            logger.info("Outputs ended", extra={"reason": str(error)})
        self.output_buffer.close("The run has ended.")
