"""What tracing and its exporter exchange: spans, and where those of a process go."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

HEADER = "traceparent"
"""Key of gRPC metadata and HTTP header."""


class Side(Enum):
    """Which end of a call a span is."""

    INTERNAL = "internal"
    SERVER = "server"
    CLIENT = "client"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracing:
    """Where the spans of a process go.

    Attributes:
        endpoint: Root of an OTLP receiver over HTTP, as in `http://localhost:4318`.
        service: What the process is.
        fields: Known of every span of it.
    """

    endpoint: str
    service: str
    fields: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PastSpan:
    """A stretch of time that is told of when it is over.

    Attributes:
        name: What it was.
        parent: Its parent's place; empty for none.
        own: Its own place, if it was promised already; empty for a new one.
        start_ns: When it began, in nanoseconds since 1970.
        end_ns: When it ended.
        fields: What is known of it.
        error: What went wrong; empty if nothing did.
    """

    name: str
    parent: str
    start_ns: int
    end_ns: int
    own: str = ""
    fields: Mapping[str, str]
    error: str = ""
