"""Feed a run's batches through the client's own streamer programs, without any appliance.

This plays the part of the appliance's input workers, in the client's environment and with the
client's messages. It proves what the docstring of `data` states:

    python tests/conformance/client/streamers.py [--num-csx N] [--num-workers-per-csx W]

prints `ok`, or fails with the first difference. Each case starts N * W streamer processes, takes
some steps, compares every step with the batch that the CPU backend sees, asks for the loader's
state, and goes on from it in new processes.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

import data
import grpc
import numpy as np
import torch
from cerebras.appliance.appliance_client import fw_user_deserialize, fw_user_serialize
from cerebras.appliance.pb.framework import appliance_service_pb2 as messages
from cerebras.appliance.pb.framework.appliance_service_pb2_grpc import ApplianceStub
from cerebras.appliance.pb.ws.common_pb2 import ClockSyncRequest
from data import Field, Samples

HERE = Path(__file__).resolve().parent
BATCH, LENGTH = 8, 5
DATASET = Samples(
    fields={
        "input_ids": Field(shape=(LENGTH,), kind="integers", high=100, dtype=torch.int32),
        "mask": Field(shape=(LENGTH,), kind="integers", high=2, dtype=torch.bool),
        "weight": Field(dtype=torch.float32),
    },
    size=44,
)
ELEMENT_TYPES = {"input_input_ids": "T_I32", "input_mask": "T_I1", "input_weight": "T_F32"}
SHARED_DTYPES = {"T_I32": np.int32, "T_I1": np.uint16, "T_F32": np.float32}


def split(batch_size: int, num_csx: int) -> list[int]:
    """Return every system's share of the batch, the first ones taking the remainder."""
    return [batch_size // num_csx + (k < batch_size % num_csx) for k in range(num_csx)]


def halves(share: int, num_micro_batches: int) -> list[int]:
    """Cut a system's share into micro-batches, the last one taking what is left."""
    size = -(-share // num_micro_batches)
    return [min(size, share - start) for start in range(0, share, size)]


def free_address() -> str:
    """Return a loopback address that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


class Streamers:
    """The streamer processes of one run."""

    def __init__(
        self, num_csx: int, workers_per_csx: int, folder: Path, num_micro_batches: int = 1
    ) -> None:
        self.num_csx, self.workers_per_csx, self.folder = num_csx, workers_per_csx, folder
        shares = split(BATCH, num_csx)
        self.subbatch_sizes = [halves(share, num_micro_batches) for share in shares]
        self.addresses = [free_address() for _ in range(num_csx * workers_per_csx)]
        self.shared = [self._share_memory(rank) for rank in range(len(self.addresses))]
        self.processes = [self._start(rank) for rank in range(len(self.addresses))]
        self.stubs = [ApplianceStub(grpc.insecure_channel(a)) for a in self.addresses]

    def _share_memory(self, rank: int) -> dict[str, tuple[str, SharedMemory, tuple[int, ...]]]:
        rows = max(self.subbatch_sizes[rank // self.workers_per_csx])
        blocks = {}
        for name, element in ELEMENT_TYPES.items():
            shape = (rows,) if name == "input_weight" else (rows, LENGTH)
            size = SHARED_DTYPES[element]().itemsize * int(np.prod(shape))
            blocks[name] = (element, SharedMemory(create=True, size=size), shape)
        return blocks

    def _start(self, rank: int) -> subprocess.Popen:
        system = [{"taskId": {"wseId": k}} for k in range(self.num_csx)]
        worker = [
            {
                "taskId": {"taskId": k, "wseId": k // self.workers_per_csx},
                "addressBook": {"taskDebugAddress": address},
            }
            for k, address in enumerate(self.addresses)
        ]
        details = {
            "tasks": [
                {"taskType": "WSE", "taskMap": system},
                {"taskType": "WRK", "taskMap": worker},
            ]
        }
        folder = self.folder / f"rank{rank}"
        folder.mkdir()
        (folder / "details.json").write_text(json.dumps({"clusterDetails": details, "id": rank}))
        program = "cerebras.pytorch.utils.data.streamer.cs_streamer_app"
        with (folder / "log").open("w") as log:
            return subprocess.Popen(
                [sys.executable, "-m", program, "-a", "details.json"],
                cwd=folder,
                env=os.environ | {"PYTHONPATH": str(HERE)},
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def run(self, input_fn, *args, num_steps: int, checkpoint_every: int = 0, state=None, **kw):
        """Load the batch's layout and start the user's loader on every streamer."""
        request = messages.RunRequest(num_iterations=num_steps, live_dataloaders=[1])
        request.dataloader.id = 1
        request.dataloader.builder = fw_user_serialize(input_fn, recurse=True)
        request.dataloader.builder_inputs = fw_user_serialize((args, kw), recurse=True)
        if state is not None:
            request.dataloader.initial_state = fw_user_serialize((state, {}))
        if checkpoint_every:
            request.checkpoint_schedule.intervals.add(
                start=checkpoint_every - 1, end=num_steps, step=checkpoint_every, include_last=True
            )
        for stub, blocks in zip(self.stubs, self.shared, strict=True):
            content = {"subbatch_sizes": self.subbatch_sizes, "tensors": _layout(blocks)}
            stub.UnaryClockSync(ClockSyncRequest(), wait_for_ready=True, timeout=60)
            load = messages.LoadRequest()
            load.rtir.content = json.dumps(content).encode()
            stub.UnaryLoad(load)
            stub.UnaryRun(request)
        for stub in self.stubs:
            stub.UnaryStartStreaming(messages.StartStreamingRequest())

    def batch(self, step: int) -> dict[str, np.ndarray]:
        """Collect the global batch of a step from the workers whose turn it is."""
        parts: dict[str, list[np.ndarray]] = {name: [] for name in ELEMENT_TYPES}
        for system, sizes in enumerate(self.subbatch_sizes):
            rank = system * self.workers_per_csx + step % self.workers_per_csx
            for size in sizes:
                self.stubs[rank].UnaryGetOutput(messages.GetOutputRequest())
                for name, (element, block, shape) in self.shared[rank].items():
                    rows = np.ndarray(shape, SHARED_DTYPES[element], buffer=block.buf)
                    parts[name].append(rows[:size].copy())
        return {name: np.concatenate(pieces) for name, pieces in parts.items()}

    def state(self, step: int) -> list:
        """Return every worker's state after a number of steps, in rank order."""
        request = messages.DataCheckpointRequest(iteration=step)
        answers = [stub.UnaryDataCheckpoint(request) for stub in self.stubs]
        return [
            fw_user_deserialize(answer.state_dict_serialized[0], from_usr=False)
            for answer in answers
        ]

    def close(self) -> None:
        """End the processes and free the shared memory."""
        for process in self.processes:
            process.kill()
            process.wait()
        for blocks in self.shared:
            for _, block, _ in blocks.values():
                block.close()
                block.unlink()


def _layout(blocks) -> list[dict]:
    """Describe a worker's shared memory blocks to its streamer."""
    return [
        {
            "source": name,
            "dtype": element,
            "shape": list(shape),
            "tensor_id": number,
            "shm_name": block.name,
        }
        for number, (name, (element, block, shape)) in enumerate(blocks.items())
    ]


@contextlib.contextmanager
def streamers(num_csx: int, workers_per_csx: int, num_micro_batches: int = 1):
    """Start the streamers of one run, and end them."""
    with tempfile.TemporaryDirectory() as folder:
        group = Streamers(num_csx, workers_per_csx, Path(folder), num_micro_batches)
        try:
            yield group
        except grpc.RpcError as error:
            print(error.details(), file=sys.stderr)
            raise
        finally:
            group.close()


def expected(loader) -> Iterator[dict[str, np.ndarray]]:
    """Yield the batches of the CPU backend, epoch after epoch."""
    while True:
        for batch in loader:
            yield {f"input_{name}": value.numpy() for name, value in batch.items()}


def same(got: dict[str, np.ndarray], want: dict[str, np.ndarray], what: str) -> None:
    """Fail if two batches differ."""
    for name, value in want.items():
        if not np.array_equal(got[name].astype(value.dtype), value):
            raise SystemExit(f"{what}: {name} is\n{got[name]}\nand should be\n{value}")


def check(num_csx: int, workers_per_csx: int, num_micro_batches: int) -> None:
    """Compare a shuffled, checkpointed, resumed run with the CPU backend's batches."""
    what = f"{num_csx} systems x {workers_per_csx} workers x {num_micro_batches} micro-batches"
    want = expected(data.restartable_loader(DATASET, BATCH))
    with streamers(num_csx, workers_per_csx, num_micro_batches) as group:
        group.run(data.restartable_loader, DATASET, BATCH, num_steps=7, checkpoint_every=3)
        for step in range(7):  # the dataset has 5 batches and a half: step 5 begins a new epoch
            same(group.batch(step), next(want), f"{what}, step {step}")
        workers = group.state(3)
    assert [worker.global_worker_id for worker in workers] == list(range(len(workers)))
    restarted = data.restartable_loader(DATASET, BATCH)
    state = restarted.aggregate_state_dict([worker.user_state_dict for worker in workers])
    assert state == {"num_consumed": 3 * BATCH}, state
    want = expected(data.restartable_loader(DATASET, BATCH))
    for _ in range(3):
        next(want)
    with streamers(num_csx, workers_per_csx, num_micro_batches) as group:
        group.run(data.restartable_loader, DATASET, BATCH, num_steps=2, state=state)
        for step in range(2):
            same(group.batch(step), next(want), f"{what}, step {step} after a restart")
    print(f"{what}: ok", flush=True)


def check_second_run() -> None:
    """A loader that cannot restart goes on in the next run, and so does the round robin."""
    want = expected(data.loader(DATASET, BATCH))
    with streamers(2, 2) as group:
        group.run(data.loader, DATASET, BATCH, num_steps=3)
        for step in range(3):
            same(group.batch(step), next(want), f"first run, step {step}")
        group.run(data.loader, DATASET, BATCH, num_steps=2)
        for step in range(3, 5):
            same(group.batch(step), next(want), f"second run, step {step - 3}")
    print("a second run goes on with the loader: ok", flush=True)


def refusal_of(group: Streamers, *, step: int) -> grpc.RpcError:
    """Return the error that a streamer answers instead of a batch."""
    try:
        group.batch(step)
    except grpc.RpcError as error:
        return error
    raise SystemExit("the loader's exception did not arrive")


def check_failure() -> None:
    """An exception of the user's loader must arrive with the user's traceback."""
    with tempfile.TemporaryDirectory() as folder:
        group = Streamers(1, 1, Path(folder))
        try:
            group.run(data.failing_loader, DATASET, BATCH, num_steps=4, after=2)
            group.batch(0)
            group.batch(1)
            failure = refusal_of(group, step=2)
            assert failure.code() == grpc.StatusCode.INTERNAL
            assert "InputFailureError: sample file is damaged" in failure.details()
            assert "failing_loader" in failure.details()
        finally:
            group.close()
    print("an exception arrives with its traceback: ok", flush=True)


def main() -> None:
    """Check the cases that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--num-csx", type=int, nargs="*", default=[1, 2, 3])
    parser.add_argument("--num-workers-per-csx", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--num-micro-batches", type=int, nargs="*", default=[1, 2])
    options = parser.parse_args()
    for num_csx in options.num_csx:
        for workers in options.num_workers_per_csx:
            for num_micro_batches in options.num_micro_batches:
                check(num_csx, workers, num_micro_batches)
    check_second_run()
    check_failure()


if __name__ == "__main__":
    main()
