"""A receiver of traces: OTLP over HTTP on loopback, as OpenTelemetry's own protocol says."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True, kw_only=True)
class Span:
    """A span that came in.

    Attributes:
        service: The process that it is of.
        name: What it was.
        trace: Its trace's id, in hexadecimal digits.
        id: Its own.
        parent: Its parent's; empty for a root.
        start_ns: When it began.
        end_ns: When it ended.
        is_error: Whether something went wrong.
        fields: What is known of it and of its process.
    """

    service: str
    name: str
    trace: str
    id: str
    parent: str
    start_ns: int
    end_ns: int
    is_error: bool
    fields: dict[str, str]


class Receiver(ThreadingHTTPServer):
    """Takes what is sent to it."""

    daemon_threads = True
    request_queue_size = 128  # the pods of a job end, and send, all at once

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.spans: list[Span] = []

    @property
    def endpoint(self) -> str:
        """What `--otlp` is to be."""
        return f"http://127.0.0.1:{self.server_port}"

    def of_job(self, job: str) -> list[Span]:
        """Return all spans of the trace in which a job is."""
        traces = {span.trace for span in self.spans if span.fields.get("wsc.job") == job}
        return [span for span in self.spans if span.trace in traces]

    def take(self, body: bytes) -> None:
        """Take one request."""
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            known = _fields(resource.resource.attributes)
            for scope in resource.scope_spans:
                self.spans += [
                    Span(
                        service=known["service.name"],
                        name=span.name,
                        trace=span.trace_id.hex(),
                        id=span.span_id.hex(),
                        parent=span.parent_span_id.hex(),
                        start_ns=span.start_time_unix_nano,
                        end_ns=span.end_time_unix_nano,
                        is_error=span.status.code == span.status.STATUS_CODE_ERROR,
                        fields=known | _fields(span.attributes),
                    )
                    for span in scope.spans
                ]


def _fields(attributes) -> dict[str, str]:
    return {each.key: each.value.string_value for each in attributes}


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert self.path == "/v1/traces"
        assert self.headers.get("content-encoding") is None
        self.server.take(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(200)
        self.send_header("content-type", "application/x-protobuf")
        self.end_headers()

    def log_message(self, *arguments) -> None:
        pass


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Run a receiver."""
    receiver = Receiver()
    thread = threading.Thread(target=receiver.serve_forever, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.shutdown()
        receiver.server_close()
        thread.join()
