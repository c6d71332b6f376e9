"""Follows a pod's log while it is written, over a connection that may break."""

import codecs
import threading
from collections.abc import Iterator

from appliance.core.errors import ClusterError
from csctl.connection.client import ClusterClient
from protos.wsc.v1.logs_pb2 import LogChunk, StreamLogRequest
from protos.wsc.v1.logs_pb2_grpc import LogsStub

_RETRY_SECONDS = 1.0
_MAX_FAILURES = 60
"""A cluster that is restarted is back within a minute, or something is wrong."""


def log_text(
    client: ClusterClient, job: str, *, pod: str, is_followed: bool, tail_lines: int | None
) -> Iterator[str]:
    """Yield a log piece by piece; a broken stream is taken up where it broke.

    Args:
        client: The way to the cluster.
        pod: The pod; empty for the job's main one.
        is_followed: Go on until the job has ended.
        tail_lines: Only so many last lines of what is there; None for all.

    Raises:
        WscError: The cluster refuses, or is away for too long.
    """
    request = StreamLogRequest(
        job=job,
        pod=pod,
        is_followed=is_followed,
        tail_lines=-1 if tail_lines is None else tail_lines,
    )
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    for chunk in _chunks(client, request):
        yield decoder.decode(chunk.data)
    yield decoder.decode(b"", final=True)


def _chunks(client: ClusterClient, request: StreamLogRequest) -> Iterator[LogChunk]:
    stub, failures = LogsStub(client.channel), 0
    while True:
        try:
            for chunk in client.stream(stub.StreamLog, request):
                failures = 0
                yield chunk
                request.offset = chunk.offset + len(chunk.data)
        except ClusterError:
            failures += 1
            if not request.is_followed or failures > _MAX_FAILURES:
                raise
            threading.Event().wait(_RETRY_SECONDS)
        else:
            return
