"""Initial weights and checkpoints across the client's wire, with the real client.

    python -m benchmarks.weights_wire [--layers 16 --width 4096]

Prints one line for each bar, `name value bar ok|MISSED`, and exits 1 if one is missed. By default
1.07 GB of float32 weights are sent, one step is trained, and the state after it is fetched; times
are scaled to one gigabyte. A time is that in which at least one of the client's calls was under
way: while it only writes its checkpoint, nobody waits for us. The client's own share is what the
same calls take against a server that throws the bytes away, in the same run; it is printed beside,
with the processor time of the client's process, which is the figure that repeats on a busy machine.
"""

import argparse
import contextlib
import json
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import numpy as np

from appliance.core.ir.tensors import DType
from appliance.wire.tensor_chunks import TensorChunk, output_messages, parse_chunk
from benchmarks.client_scripts.running import appliance, output_of, start_client
from protos.appliance import appliance_service_pb2 as pb

LIMIT_SECONDS = 5.0
SERVICE = "cerebras.Appliance"


def swallow(chunks: Iterator[TensorChunk], context: grpc.ServicerContext) -> Iterator[object]:
    """Take a tensor and keep nothing of it."""
    next(chunks)
    yield pb.SendInputResponse()
    for _ in chunks:
        pass
    yield pb.SendInputResponse()


@contextlib.contextmanager
def null_server(width: int) -> Iterator[int]:
    """Serve the two calls without doing anything with the bytes; yields the port."""
    values = np.ones((width, width), np.float32)
    replies = list(output_messages(values, DType.F32))
    methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        "SendInputBidirStream": grpc.stream_stream_rpc_method_handler(
            swallow, parse_chunk, pb.SendInputResponse.SerializeToString
        ),
        "GetOutputStream": grpc.unary_stream_rpc_method_handler(
            lambda request, context: iter(replies), pb.GetOutputRequest.FromString
        ),
    }
    options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    server = grpc.server(ThreadPoolExecutor(16), options=options)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, methods),))
    port = server.add_insecure_port("localhost:0")
    server.start()
    try:
        yield port
    finally:
        server.stop(None).wait()


def floor(layers: int, width: int, directory: Path) -> dict[str, float]:
    """Return the client's own seconds for sending and fetching everything."""
    with null_server(width) as port:
        arguments = (port, layers, width)
        log = directory / "floor.log"
        client = start_client("wire_floor.py", *arguments, directory=directory, log=log)
        text = output_of(client, log)
    found: dict[str, float] = json.loads(text.splitlines()[-1])
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """What all tensors took in one direction.

    Attributes:
        seconds: Wall time in which at least one was on its way.
        client_cpu_seconds: Processor time of the client's process, writing its file included.
    """

    seconds: float
    client_cpu_seconds: float


def train(layers: int, width: int, directory: Path) -> dict[str, Transfer]:
    """Return what it took the real client to send its weights and to fetch its checkpoint."""
    out, log = directory / "timeline.json", directory / "client.log"
    with appliance(directory / "appliance") as address:
        client = start_client(
            "weights.py",
            *("--mgmt-address", address, "--out", out, "--checkpoint", directory / "c.mdl"),
            *("--layers", layers, "--width", width),
            directory=directory,
            log=log,
        )
        output_of(client, log)
    timeline = json.loads(out.read_text())
    calls, marks = timeline["calls"], timeline["marks"]
    return {
        "send": Transfer(
            seconds=_busy_seconds(calls["send_weight"], 0),
            client_cpu_seconds=marks["weights end"][1] - marks["weights begin"][1],
        ),
        "fetch": Transfer(
            seconds=_busy_seconds(calls["recv_output"], width * width),
            client_cpu_seconds=marks["save ends"][1] - marks["save begins"][1],
        ),
    }


def _busy_seconds(calls: list[tuple[float, float, int]], least_bytes: int) -> float:
    """Return the seconds in which at least one of the large calls was under way."""
    busy = reached = 0.0
    for begin, end in sorted((begin, end) for begin, end, size in calls if size >= least_bytes):
        busy += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return busy


def main() -> int:
    """Run from the command line; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--width", type=int, default=4096)
    options = parser.parse_args()
    gigabytes = options.layers * options.width**2 * 4 / 1e9
    with tempfile.TemporaryDirectory(prefix="wsc-wire-") as folder:
        own = floor(options.layers, options.width, Path(folder))
        found = train(options.layers, options.width, Path(folder))
    is_met = True
    for name, transfer in found.items():
        value = transfer.seconds / gigabytes
        verdict = "ok" if value < LIMIT_SECONDS else "MISSED"
        is_met = is_met and value < LIMIT_SECONDS
        cpu = transfer.client_cpu_seconds / gigabytes
        print(
            f"# {name}: the client's own calls {own[name] / gigabytes:.2f} s a gigabyte, "
            f"its process {cpu:.2f} processor seconds"
        )
        print(f"wire.{name}_1GB_seconds {value:.2f} {LIMIT_SECONDS:.1f} {verdict}")
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
