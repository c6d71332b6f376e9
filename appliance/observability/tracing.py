"""Traces across management, coordinators and pods, off unless somebody gives an address for them.

Code that is traced knows this module alone. While tracing is off, every function here does next to
nothing, and OpenTelemetry is not even imported; `start_tracing` loads it.

A place in a trace travels as text, the `traceparent` of W3C Trace Context: in gRPC's metadata, in
PodSpec, and with a job's request, where a later management finds it.
"""

import importlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol

from appliance.core.errors import UserError
from appliance.core.pods.pod_spec import PodSpec
from appliance.observability.spans import PastSpan, Side, Tracing


class Backend(Protocol):
    """What does the work while tracing is on."""

    def span(
        self, name: str, *, parent: str, side: Side, fields: Mapping[str, str], is_current: bool
    ) -> AbstractContextManager[None]:
        """Time a block."""
        ...

    def here(self) -> str:
        """Return the place of the span in which this thread or task is; empty outside of any."""
        ...

    def adopt(self, parent: str) -> None:
        """Let spans without another parent be below this one."""
        ...

    def promise(self, parent: str) -> str:
        """Return the place of a span that will be recorded later."""
        ...

    def record(self, span: PastSpan) -> str:
        """Tell of a span that is over, and return its place."""
        ...

    def close(self) -> None:
        """Send what is unsent."""
        ...


_backend: Backend | None = None


def start_tracing(tracing: Tracing) -> None:
    """Trace this process from now on.

    Raises:
        UserError: OpenTelemetry is not installed.
    """
    global _backend  # noqa: PLW0603 - one per process, like the root logger
    try:
        module = importlib.import_module("appliance.observability.otlp")
    except ModuleNotFoundError as error:
        raise UserError(
            f"Traces need {error.name}, which is not installed.",
            hint="Install the extra: pip install 'open-wafer-appliance[tracing]'.",
        ) from error
    _backend = module.OtlpBackend(tracing)


def stop_tracing() -> None:
    """Send what is unsent, and trace no more."""
    global _backend  # noqa: PLW0603 - see above
    if _backend is not None:
        _backend.close()
        _backend = None


def is_tracing() -> bool:
    """Whether this process is traced."""
    return _backend is not None


def span(
    name: str,
    *,
    parent: str = "",
    side: Side = Side.INTERNAL,
    fields: Mapping[str, str] | None = None,
    is_current: bool = True,
) -> AbstractContextManager[None]:
    """Time the block as a span.

    Args:
        name: What the block does; one of few.
        parent: Place of the parent; empty for the span around, else for the process's.
        side: Which end of a call it is.
        fields: What is known of it.
        is_current: Whether spans in the block are its children; False where the block is left and
            entered again in other threads, as generators are.
    """
    if _backend is None:
        return nullcontext()
    return _backend.span(name, parent=parent, side=side, fields=fields or {}, is_current=is_current)


def here() -> str:
    """Return the place of the span around, for another process; empty while tracing is off."""
    return "" if _backend is None else _backend.here()


def record(past: PastSpan) -> str:
    """Tell of a span that is over, and return its place; empty while tracing is off."""
    return "" if _backend is None else _backend.record(past)


def begin_job() -> tuple[str, str]:
    """Return the place of a new job below the present span, and that span's; empty while off."""
    if _backend is None:
        return "", ""
    parent = _backend.here()
    return _backend.promise(parent), parent


@contextmanager
def traced_pod(spec: PodSpec) -> Iterator[None]:
    """Trace the process of a pod if its spec says so, every span of it below the pod's own."""
    if not spec.trace:
        yield
        return
    fields = {"wsc.job": spec.job, "wsc.pod": spec.name}
    service = f"wsc-{spec.role.value}"
    start_tracing(Tracing(endpoint=spec.options.otlp, service=service, fields=fields))
    try:
        with span(f"pod {spec.role.value}", parent=spec.trace):
            assert _backend is not None
            _backend.adopt(_backend.here())
            yield
    finally:
        stop_tracing()
