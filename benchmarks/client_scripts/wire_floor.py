"""The client's own calls for sending and fetching tensors, against any server; prints seconds.

    python wire_floor.py PORT NUM_TENSORS WIDTH

Five threads at a time, as the client has it. Prints JSON: seconds to send and to fetch all tensors.
"""

from __future__ import annotations

import json
import queue
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
from cerebras.appliance.appliance_client import (
    _chunked_tensor_stream,
    _recv_output_stream,
    make_channel_options,
)
from cerebras.appliance.pb.framework.appliance_service_pb2 import GetOutputRequest
from cerebras.appliance.pb.framework.appliance_service_pb2_grpc import ApplianceStub

CHUNK_BYTES = 256 << 20


def main() -> None:
    """Send and fetch, and print how long it took."""
    port, num_tensors, width = (int(word) for word in sys.argv[1:])
    channel = grpc.insecure_channel(f"localhost:{port}", options=make_channel_options())
    stub, values = ApplianceStub(channel), np.ones((width, width), np.float32)

    def send(number):
        go_ahead = queue.Queue()
        stream = _chunked_tensor_stream(go_ahead, 0, f"w{number}", values, CHUNK_BYTES)
        for response in stub.SendInputBidirStream(stream):
            go_ahead.put(response)

    def fetch(number):
        request = GetOutputRequest(iteration=0, tensor_name=f"w{number}")
        _recv_output_stream(stub.GetOutputStream(request), "tensor")

    found = {}
    for call in (send, fetch):
        call(0)
        begin = time.monotonic()
        with ThreadPoolExecutor(5) as pool:
            list(pool.map(call, range(num_tensors)))
        found[call.__name__] = time.monotonic() - begin
    print(json.dumps(found))


if __name__ == "__main__":
    main()
