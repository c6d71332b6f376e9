"""Spans by OpenTelemetry, sent as OTLP over HTTP. Imported only where tracing is on."""

import contextlib
from collections.abc import Iterator, Mapping
from contextvars import ContextVar

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator
from opentelemetry.trace import SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from appliance.observability.spans import HEADER, PastSpan, Side, Tracing

_EXPORT_SECONDS = 2.0
"""A receiver that is away holds the end of a pod up for so long at most."""
_SEND_EVERY_MILLISECONDS = 1000
_KINDS = {
    Side.INTERNAL: SpanKind.INTERNAL,
    Side.SERVER: SpanKind.SERVER,
    Side.CLIENT: SpanKind.CLIENT,
}

_promised: ContextVar[tuple[int, int] | None] = ContextVar("promised_span", default=None)


class _Ids(IdGenerator):
    """Random ids, but for a span whose ids were promised to its children before it was told of."""

    def __init__(self) -> None:
        self._random = RandomIdGenerator()

    def generate_span_id(self) -> int:
        """Return the id of the next span."""
        promised = _promised.get()
        return self._random.generate_span_id() if promised is None else promised[1]

    def generate_trace_id(self) -> int:
        """Return the id of the next trace."""
        promised = _promised.get()
        return self._random.generate_trace_id() if promised is None else promised[0]


class OtlpBackend:
    """Traces a process.

    Args:
        tracing: Where its spans go.
    """

    def __init__(self, tracing: Tracing) -> None:
        self._ids = _Ids()
        self._provider = TracerProvider(
            resource=Resource.create({"service.name": tracing.service, **tracing.fields}),
            id_generator=self._ids,
            shutdown_on_exit=False,
        )
        exporter = OTLPSpanExporter(
            endpoint=f"{tracing.endpoint.rstrip('/')}/v1/traces", timeout=_EXPORT_SECONDS
        )
        self._provider.add_span_processor(
            BatchSpanProcessor(exporter, schedule_delay_millis=_SEND_EVERY_MILLISECONDS)
        )
        self._tracer = self._provider.get_tracer("appliance")
        self._propagator = TraceContextTextMapPropagator()
        self._root = ""

    @contextlib.contextmanager
    def span(
        self, name: str, *, parent: str, side: Side, fields: Mapping[str, str], is_current: bool
    ) -> Iterator[None]:
        """Time a block."""
        context = self._context(parent)
        kind = _KINDS[side]
        if is_current:
            with self._tracer.start_as_current_span(
                name, context=context, kind=kind, attributes=dict(fields)
            ):
                yield
            return
        started = self._tracer.start_span(name, context=context, kind=kind, attributes=dict(fields))
        try:
            yield
        except BaseException as error:
            started.set_status(Status(StatusCode.ERROR, type(error).__name__))
            raise
        finally:
            started.end()

    def here(self) -> str:
        """Return the place of the span around."""
        return _place(trace.get_current_span().get_span_context()) or self._root

    def adopt(self, parent: str) -> None:
        """Let spans without another parent be below this one."""
        self._root = parent

    def promise(self, parent: str) -> str:
        """Return the place of a span that will be recorded later."""
        above = trace.get_current_span(self._context(parent)).get_span_context()
        trace_id = above.trace_id if above.is_valid else self._ids.generate_trace_id()
        flags = above.trace_flags if above.is_valid else trace.TraceFlags(trace.TraceFlags.SAMPLED)
        return _place(
            trace.SpanContext(trace_id, self._ids.generate_span_id(), False, trace_flags=flags)
        )

    def record(self, span: PastSpan) -> str:
        """Tell of a span that is over, and return its place."""
        token = _promised.set(self._ids_of(span.own))
        try:
            made = self._tracer.start_span(
                span.name,
                context=self._context(span.parent) if span.parent else Context(),
                attributes=dict(span.fields),
                start_time=span.start_ns,
            )
        finally:
            _promised.reset(token)
        if span.error:
            made.set_status(Status(StatusCode.ERROR, span.error))
        made.end(end_time=span.end_ns)
        return _place(made.get_span_context())

    def close(self) -> None:
        """Send what is unsent."""
        self._provider.shutdown()

    def _context(self, parent: str) -> Context | None:
        """Return the context of a place, else that of the process; None for the one around."""
        is_inside = trace.get_current_span().get_span_context().is_valid
        place = parent or ("" if is_inside else self._root)
        return self._propagator.extract({HEADER: place}, Context()) if place else None

    def _ids_of(self, place: str) -> tuple[int, int] | None:
        if not place:
            return None
        context = trace.get_current_span(self._context(place)).get_span_context()
        return context.trace_id, context.span_id


def _place(context: trace.SpanContext) -> str:
    if not context.is_valid:
        return ""
    trace_id, span_id = (
        trace.format_trace_id(context.trace_id),
        trace.format_span_id(context.span_id),
    )
    return f"00-{trace_id}-{span_id}-{context.trace_flags:02x}"
