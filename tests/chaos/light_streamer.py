"""The streamer of the bench's jobs: serves batches as the public client's does, without torch.

The bench puts it where the public client's own lies in the job's environment; it makes each batch
from the seed and the batch's number, so that every run of a program sees the same data. The last
batches wait for a file, so that no job ends before everything planned has been done to it.
"""

import argparse
import json
import mmap
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import numpy as np

from protos.appliance import appliance_service_pb2 as pb
from protos.appliance import appliance_service_pb2_grpc, ws_common_pb2

BATCH = 4
_TYPES = {"T_F32": np.float32, "T_I32": np.int32, "T_F16": np.float16}


def batch(seed, number):
    """Return the tensors of one global batch by name."""
    chance = np.random.default_rng((seed, number))
    rows = chance.standard_normal((BATCH, 8))
    return {"input_0": rows, "input_1": chance.integers(0, 4, BATCH)}


class Streamer(appliance_service_pb2_grpc.ApplianceServicer):
    """One input worker's dataloader."""

    def __init__(self, worker, num_workers):
        self.worker, self.num_workers = worker, num_workers
        self.number = 0
        self.waiting = threading.Event()

    def UnaryClockSync(self, request, context):
        return ws_common_pb2.ClockSyncResponse()

    def UnaryLoad(self, request, context):
        content = json.loads(request.rtir.content)
        sizes = [share[0] for share in content["subbatch_sizes"]]
        system = self.worker // (self.num_workers // len(sizes))
        self.begin, self.size = sum(sizes[:system]), sizes[system]
        self.stride = self.num_workers // len(sizes)
        self.tensors = [(each["source"], _block(each)) for each in content["tensors"]]
        return pb.LoadResponse()

    def UnaryRun(self, request, context):
        loader = json.loads(bytes.fromhex(request.dataloader.builder))
        self.seed, self.seconds = loader["seed"], loader["seconds"]
        self.hold, self.released = loader["hold"], Path(loader["until"])
        self.number = self.worker % self.stride
        return pb.RunResponse()

    def UnaryStartStreaming(self, request, context):
        return pb.StartStreamingResponse()

    def UnaryGetOutput(self, request, context):
        self.waiting.wait(self.seconds)
        while self.number >= self.hold and not self.released.exists() and context.is_active():
            self.waiting.wait(0.05)
        made = batch(self.seed, self.number)
        for name, block in self.tensors:
            block[...] = made[name][self.begin : self.begin + self.size].reshape(block.shape)
        self.number += self.stride
        return pb.GetOutputResponse()

    def UnaryDataCheckpoint(self, request, context):
        return pb.DataCheckpointResponse(state_dict_serialized=[f"{self.number}"])

    def UnaryFinalize(self, request, context):
        return pb.FinalizeResponse()

    def UnaryDone(self, request, context):
        return pb.DoneResponse()


def _block(tensor):
    descriptor = os.open(f"/dev/shm/{tensor['shm_name'].lstrip('/')}", os.O_RDWR)
    try:
        memory = mmap.mmap(descriptor, 0)
    finally:
        os.close(descriptor)
    dtype, shape = np.dtype(_TYPES[tensor["dtype"]]), tuple(tensor["shape"])
    return np.frombuffer(memory, dtype, int(np.prod(shape))).reshape(shape)


def main():
    """Serve until told to end."""
    parser = argparse.ArgumentParser()
    parser.add_argument("-a", required=True)
    details = json.loads(Path(parser.parse_args().a).read_text())
    worker = int(details.get("id", 0))
    tasks = details["cluster_details"]["tasks"]
    workers = next(task for task in tasks if task["task_type"] == "WRK")["task_map"]
    address = workers[worker]["address_book"]["task_debug_address"]
    server = grpc.server(ThreadPoolExecutor(4))
    appliance_service_pb2_grpc.add_ApplianceServicer_to_server(
        Streamer(worker, len(workers)), server
    )
    server.add_insecure_port(address)
    server.start()
    signal.sigwait([signal.SIGTERM])
    server.stop(0)


if __name__ == "__main__":
    main()
