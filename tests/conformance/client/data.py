"""Deterministic datasets and the loaders that a conformance run feeds them through.

How the client's input pipeline works, and what it asks of the appliance
------------------------------------------------------------------------

*On the user node.* `cstorch.utils.data.DataLoader(input_fn, *args, **kwargs)` builds the user's
loader, takes the first batch, and traces the program with it; on CSX it then repeats that first
batch and never asks the loader again. `cstorch.distributed.is_streamer()` is False there,
`get_streaming_batch_size(n)` returns `n`: the program is traced with the *global* batch.
`UnaryRun` (RunRequest) carries `dataloader.builder` = hex(dill(input_fn)), `builder_inputs` =
hex(dill((args, kwargs))), `initial_state` = hex(dill((state, load_kwargs))) or "",
`dataloader.id`, `live_dataloaders`, `num_iterations` and `checkpoint_schedule`; every streamer
gets that message unchanged.

*Who is who.* One streamer process per input worker: `cs_streamer_app -a FILE`, where FILE is the
JSON of a SendToEveryTask{cluster_details, debug_args, id}. `id` is the worker's WRK
`task_id.task_id`, which is also its global rank. With N systems and W workers per system the
ranks must be 0..N*W-1, *system by system*: rank = system * W + local rank (`local_rank` is
computed as rank % W, `wse_id` is looked up in the task map). The number of systems is the number
of WSE entries. Set `task_id.wse_id`; a worker whose entry has only `wse_ids` counts for system 0
as well, since `wse_id` is then 0. The streamer listens on `address_book.task_debug_address`.

*Which batch sizes.* `UnaryLoad.rtir.content` is JSON with exactly two keys: `subbatch_sizes` (one
list per system, the same JSON for every streamer; an inner list holds the micro-batches of that
system) and `tensors` (each exactly source, dtype, shape, tensor_id, shm_name). A system's share
of the batch is the sum of its inner list and must be at least 1. In the streamer,
`get_streaming_batch_size(anything)` returns this worker's system's share, and
`get_streaming_batch_size(n, rank)` that of any rank. So the split over systems is the appliance's
choice, and the client follows it: 8 over 3 systems as [[3], [3], [2]] or as [[2], [3], [3]] are
both right. `source` is the name of `cs.input_name`; a batch must have dtype and shape[1:] of the
spec, or the streamer raises. A 0-d tensor becomes shape (1,). T_I1 is a bool array on the user's
side and uint16 in shared memory.

*Which samples.* `cstorch.utils.data.DistributedSampler(batch_size=GLOBAL)` (used here, and by
most scripts) cuts every global batch in consecutive pieces, system 0 first: with shares 3, 3, 2,
samples 0-2 go to system 0, 3-5 to system 1, 6-7 to system 2. Within a system global batch k comes
from the worker with local rank k % W, round robin, where k counts from the start of the run. The
activations of step k are therefore: for every system, `UnaryGetOutput` on rank system * W + k %
W, once per micro-batch. A call returns one micro-batch; if the inner list has unequal sizes, each
is padded with zeros at the end to the largest one (so the shared memory holds max(inner list)
rows). Samples of all systems in order are exactly the batch that the CPU backend sees in step k.

A script that shards by hand sees `num_streamers()` = N*W, `get_streaming_rank()` = rank,
`num_tasks()` = N*W, `get_ordinal()` = rank; on the user node these are 0 streamers, 1 task,
ordinal 0 (`get_streaming_rank()` fails an assertion there).

*When things happen in a streamer.* `UnaryRun` returns at once; a thread builds the loader and
fetches the first micro-batch. Its failure shows in the next `UnaryStartStreaming`, `UnaryPing` or
`UnaryGetOutput`; a later failure shows in `UnaryGetOutput`. Both are gRPC INTERNAL with the
user's complete traceback as details. A dead loader stays dead: the next call raises
StopIteration. The loader is started again when it is exhausted (with a shuffling sampler: next
epoch, other order); one that yields nothing raises. Nothing is fetched ahead of the calls but the
first micro-batch. The process writes `dataloader_checkpoints_*` in its working directory, which
must therefore be its own and writable. After `UnaryDone` it leaves its main loop; calls in flight
get 90 s.

*Restartable loaders.* A loader with `state_dict`, `load_state_dict`, `aggregate_state_dict` and
`deaggregate_state_dict` (protocol `RestartableDataLoader`) is checkpointed. Each batch it yields
must then have exactly the system's share of samples. Worker r saves its own `state_dict()` at
global step s after ceil((s - r % W) / W) batches of its own, for s = 0, every step of the
schedule, and the last step of the run (even without a checkpoint schedule).
`UnaryDataCheckpoint(iteration=s)` (1-based: after s steps) on a streamer answers one
`state_dict_serialized`: hex(dill(DataLoaderCheckpoint)), or "" if that worker has not got there
yet: ask again. The client wants the list over *all* workers, in rank order, none empty; it passes
their `user_state_dict` to `aggregate_state_dict`. It asks at every checkpoint step and at the
last step of each run (in both cases while it handles that step's outputs), since the next run of
the process starts from that state. A step outside the schedule raises in the streamer. On resume
every streamer gets the same aggregated state in `initial_state` and applies
`deaggregate_state_dict` and `load_state_dict` to a new loader. The round robin starts again at
local rank 0.

*A second run in the same process* (train, eval, train, ...): `UnaryLoad` drops a restartable
loader, and the client sends `initial_state`. A loader that cannot restart stays alive while its
id is in `live_dataloaders`, and goes on where it stopped; each worker then still has its own W-th
of the batches, so the round robin must go on as well: step j of the new run is batch K + j, K
batches having been taken from this loader before, and comes from local rank (K + j) % W. The CPU
backend differs: every run iterates the loader anew, from its beginning.

*Unpickling.* Functions of importable modules are pickled by reference, those of `__main__` by
value. PYTHONPATH of a streamer must hold `user_sidecar_env.python_path` and every entry of
`python_paths`; the client does *not* add the script's own directory. That is why this file is a
module and why `train.py` passes `ClusterConfig(python_paths=[its directory])`.
`debug_args.debug_wrk.env_vars` and `visit_fn_map` are applied by the streamer itself, from FILE.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import cerebras.pytorch as cstorch
import torch
from torch.utils.data import DataLoader, Dataset


@dataclass(frozen=True, kw_only=True)
class Field:
    """How one tensor of a sample is drawn."""

    shape: tuple[int, ...] = ()
    kind: Literal["normal", "integers", "bits", "choices", "prefix_mask"] = "normal"
    """`prefix_mask`: ones up to a random length of at least half, then zeros."""
    choices: tuple[float, ...] = ()
    """The numbers that `choices` draws from; one that stands here twice is drawn twice as often."""
    high: int = 2
    """Integers are drawn from 0 to `high` - 1."""
    dtype: torch.dtype = torch.float32
    scale: float = 1.0
    offset: float = 0.0

    def draw(self, generator: torch.Generator) -> torch.Tensor:
        """Draw one value."""
        if self.kind == "normal":
            value = torch.randn(self.shape, generator=generator) * self.scale + self.offset
        elif self.kind == "prefix_mask":
            (length,) = self.shape
            used = int(torch.randint(length // 2, length + 1, (), generator=generator))
            value = (torch.arange(length) < used).int()
        elif self.kind == "choices":
            which = torch.randint(0, len(self.choices), self.shape, generator=generator)
            value = torch.tensor(self.choices)[which]
        else:
            value = torch.randint(0, self.high, self.shape, generator=generator)
        return value.to(self.dtype)


@dataclass(frozen=True, kw_only=True)
class Samples(Dataset):
    """A map-style dataset: sample i depends on i and the seed only."""

    fields: tuple[Field, ...] | Mapping[str, Field]
    size: int = 4096
    seed: int = 1
    overflowing: range = field(default_factory=lambda: range(0))
    """Samples whose floating-point fields are multiplied by 1e12, so that gradients overflow."""

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Any:
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + index)
        if isinstance(self.fields, Mapping):
            return {name: self._draw(item, index, generator) for name, item in self.fields.items()}
        return tuple(self._draw(item, index, generator) for item in self.fields)

    def _draw(self, item: Field, index: int, generator: torch.Generator) -> torch.Tensor:
        value = item.draw(generator)
        return value * 1e12 if index in self.overflowing and value.is_floating_point() else value


def loader(
    dataset: Dataset,
    batch_size: int,
    *,
    shuffle: bool = False,
    seed: int = 7,
    start_index: int = 0,
) -> DataLoader:
    """Make a loader of global batches; in a streamer, of this worker's share of them."""
    sampler = cstorch.utils.data.DistributedSampler(
        dataset, shuffle=shuffle, seed=seed, start_index=start_index, batch_size=batch_size
    )
    return DataLoader(dataset, batch_sampler=sampler, num_workers=0)


class RestartableLoader:
    """A loader that goes on after the samples that an earlier run has consumed.

    The state is one number: samples consumed by all workers of all runs so far. A worker reports
    the samples it streamed in this run, the sum over workers is the run's; a run on another number
    of systems or workers can go on from it.
    """

    def __init__(
        self,
        dataset: Dataset,
        batch_size: int,
        *,
        shuffle: bool = True,
        seed: int = 7,
        start_index: int = 0,
    ) -> None:
        self.dataset = dataset
        self.options = {"batch_size": batch_size, "shuffle": shuffle, "seed": seed}
        self.num_consumed_before = start_index
        self.sampler = None

    def __len__(self) -> int:
        return len(self.dataset) // self.options["batch_size"]

    def __iter__(self) -> Iterator[Any]:
        if self.sampler is None:
            self.sampler = cstorch.utils.data.DistributedSampler(
                self.dataset, start_index=self.num_consumed_before, **self.options
            )
        yield from DataLoader(self.dataset, batch_sampler=self.sampler, num_workers=0)

    def state_dict(self) -> dict[str, int]:
        worker = cstorch.distributed.get_worker_state()
        return {"before": self.num_consumed_before, "streamed": worker.samples_streamed}

    def aggregate_state_dict(self, worker_states: list[dict[str, int]]) -> dict[str, int]:
        streamed = sum(state["streamed"] for state in worker_states)
        return {"num_consumed": worker_states[0]["before"] + streamed}

    def deaggregate_state_dict(self, aggregated: dict[str, int]) -> dict[str, int]:
        return aggregated

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.num_consumed_before = state["num_consumed"]
        self.sampler = None


def restartable_loader(dataset: Dataset, batch_size: int, **options) -> RestartableLoader:
    """Make a shuffling loader whose position is part of a checkpoint."""
    return RestartableLoader(dataset, batch_size, **options)


class InputFailureError(RuntimeError):
    """What `failing_loader` raises; tests look for its message in the client's traceback."""


def failing_loader(dataset: Dataset, batch_size: int, *, after: int, **options) -> Iterator[Any]:
    """Yield `after` batches, then raise as a user's broken input pipeline would."""
    for count, batch in enumerate(loader(dataset, batch_size, **options)):
        if count == after:
            raise InputFailureError(f"sample file is damaged after {after} batches")
        yield batch


def stalling_loader(
    dataset: Dataset, batch_size: int, *, after: int, seconds: float, **options
) -> Iterator[Any]:
    """Yield so many batches at once, and wait before each further one."""
    pause = threading.Event()
    for number, batch in enumerate(loader(dataset, batch_size, **options)):
        pause.wait(seconds if number >= after else 0.0)
        yield batch


def slow_loader(dataset: Dataset, batch_size: int, *, seconds: float, **options) -> Iterator[Any]:
    """Wait before every batch, so that a test can interrupt the run."""
    pause = threading.Event()
    for batch in loader(dataset, batch_size, **options):
        pause.wait(seconds)
        yield batch
