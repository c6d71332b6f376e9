"""Divides a system's samples among its threads, instead of dividing each operation.

A *strand* is to a system what a system is to the cluster: it computes layer steps for a contiguous
part of the samples, and its sums are added to those of the other strands. Threads that share every
operation have to be woken for each of the hundreds of operations of a step; a strand's thread finds
its next layer step ready, and begins it while the other strands still compute the one before. The
first strand writes into the slot of the gradient stream, the others into memory of their own.

Sums are added in the order of the strands, so the same plan on as many strands gives the same bits.
A single strand needs no thread: it runs on the loop's own.
"""

import contextlib
import functools
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

import numpy as np
import torch
from numpy.typing import NDArray

from appliance.core.plans.micro_batches import Visit
from appliance.numerics.programs.pool import TensorPool
from appliance.streams.slot_layout import Span
from appliance.streams.stream_topology import num_ring_slots
from appliance.streams.torch_views import SlotTensors, Tensors
from workers.csx.executor import set_compute_threads
from workers.csx.generation.stage import KeptLoads
from workers.csx.samples.micro_batches import MicroBatches, ShareProgram

Slot = NDArray[np.uint8]


class Strands:
    """The wafer part of a plan for one system, on one or more strands.

    Args:
        parts: The wafer part of each strand.
        sums: Tensors of a slot of the gradient stream, by layer step.
        sum_spans: How each layer step's sums are added up.
        largest_sum_bytes: Of a slot.
        num_threads: Threads of each strand.
        device: Where to compute; None is the processor.
    """

    def __init__(
        self,
        parts: Sequence[ShareProgram],
        *,
        sums: SlotTensors,
        sum_spans: Sequence[tuple[Span, ...]],
        largest_sum_bytes: int,
        num_threads: int,
        device: torch.device | None = None,
    ) -> None:
        self._num_threads = num_threads
        kept = KeptLoads(device)
        self._strands = tuple(MicroBatches(part, device, kept) for part in parts)
        self._sums, self._spans = sums, tuple(sum_spans)
        pool, shape = TensorPool(), (largest_sum_bytes,)
        self._rooms = deque(
            tuple(pool.empty(shape, torch.uint8).numpy() for _ in self._strands[1:])
            for _ in range(num_ring_slots(largest_sum_bytes) - 1)
        )
        self._threads: tuple[ThreadPoolExecutor, ...] = ()
        # What is left to do of each visit that was begun: computing, and adding up its sums.
        self._begun: deque[tuple[Callable[[], None], Callable[[], None]]] = deque()

    @property
    def runs_ahead(self) -> bool:
        """Whether a visit may begin before the one before it is finished.

        Where sums are large there is no room for those of two visits, as in the gradient stream.
        """
        return len(self._strands) > 1 and len(self._rooms) > 1

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Keep threads for the strands; to be entered by the thread that calls all else."""
        set_compute_threads(self._num_threads)
        with contextlib.ExitStack() as stack:
            if len(self._strands) > 1:
                self._threads = tuple(map(self._thread, range(len(self._strands))))
            for thread in self._threads:
                stack.callback(thread.shutdown, cancel_futures=True)
            yield

    def activations(self) -> Iterator[torch.Tensor]:
        """Yield the values that are resident now; no visit may be on its way."""
        for strand in self._strands:
            yield from strand.activations()

    def begin_step(self, step: int, batch: Tensors) -> None:
        """Begin a step with the system's share of the batch tensors, by value name."""
        for strand in self._strands:
            strand.begin(step, batch)

    def generated(self) -> tuple[int, int] | None:
        """Return the passes over positions of the step, and its tokens; None without a loop.

        A system computes all samples of a micro-batch in the same pass, whatever the strands do.
        """
        found = [made for strand in self._strands if (made := strand.generated()) is not None]
        if not found:
            return None
        by_micro_batch = zip(*[positions for positions, _ in found], strict=False)
        passes = sum(len(frozenset().union(*each)) for each in by_micro_batch)
        return passes, sum(tokens for _, tokens in found)

    def end_step(self) -> None:
        """Forget everything of the step; no visit may be on its way."""
        for strand in self._strands:
            strand.end()

    def begin(
        self, visit: Visit, loads: Tensors, slot: Slot, sizes: Mapping[str, int] | None = None
    ) -> None:
        """Begin a layer step for one micro-batch.

        Args:
            loads: What it loads, by name; may be reused once the visit is finished.
            slot: Receives the sums.
            sizes: Sums that are vectors of so many values, at the beginning of their places.
        """
        slots = (slot, *self._rooms[0])
        self._rooms.rotate()
        sums = [_cut(self._sums.of(each, visit.layer_step), sizes or {}) for each in slots]
        calls = [
            functools.partial(strand.compute, visit, loads, out)
            for strand, out in zip(self._strands, sums, strict=True)
        ]
        add = functools.partial(_add, slots, self._spans[visit.layer_step])
        if sizes:
            add = functools.partial(_add_tensors, sums)
        if self._threads:
            pairs = zip(self._threads, calls, strict=True)
            futures = tuple([thread.submit(call) for thread, call in pairs])
            self._begun.append((functools.partial(_ended, futures), add))
        else:
            self._begun.append((calls[0], add))

    def finish(self) -> None:
        """Finish the visit that was begun first.

        Raises:
            InternalError: An operation failed.
        """
        compute, add = self._begun.popleft()
        compute()
        add()

    def _thread(self, number: int) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(
            max_workers=1,
            thread_name_prefix=f"strand-{number}",
            initializer=set_compute_threads,
            initargs=(self._num_threads,),
        )


def _ended(futures: Sequence["Future[None]"]) -> None:
    """Wait until every call has ended, and raise the first failure."""
    wait(futures)
    for future in futures:
        future.result()


def _cut(sums: Tensors, sizes: Mapping[str, int]) -> Tensors:
    """Return the tensors of a slot, some of them as vectors of so many values."""
    return {
        name: tensor.view(-1)[: sizes[name]] if name in sizes else tensor
        for name, tensor in sums.items()
    }


def _add_tensors(sums: Sequence[Tensors]) -> None:
    """Do what `_add` does where not the whole of every tensor is written."""
    with np.errstate(all="ignore"):
        for name, total in sums[0].items():
            for other in sums[1:]:
                np.add(total.numpy(), other[name].numpy(), out=total.numpy())


def _add(slots: Sequence[Slot], spans: Sequence[Span]) -> None:
    """Add up the sums of all strands in the first one's slot; they compute meanwhile."""
    # An overflow or a NaN is a result like any other: the loss scale's business, not ours.
    with np.errstate(all="ignore"):
        for span in spans:
            total, *others = [slot[span.start : span.end].view(span.dtype) for slot in slots]
            for other in others:
                np.add(total, other, out=total)
