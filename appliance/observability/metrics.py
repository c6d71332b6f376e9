"""What management counts and times while it works, for Prometheus.

Names are `wsc_<part>_<what>_<unit>`; labels have few values each, whatever the load. What can be
read from the database or from pods when somebody asks is in
`management/cluster/collector.py`.
"""

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
)

REGISTRY = CollectorRegistry()
ProcessCollector(registry=REGISTRY)
PlatformCollector(registry=REGISTRY)
GCCollector(registry=REGISTRY)

_CALL_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60)
_CYCLE_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)
_DELAY_BUCKETS = (0.05, 0.25, 1, 5, 15, 60, 300, 900, 3600, 14400, 43200, 86400, 604800)

GRPC_CALLS = Counter(
    "wsc_grpc_calls",
    "Calls of gRPC methods that have ended, by status code.",
    ("service", "method", "code"),
    registry=REGISTRY,
)
GRPC_SECONDS = Histogram(
    "wsc_grpc_call_seconds",
    "Time from the arrival of a unary call to its answer.",
    ("service", "method"),
    buckets=_CALL_BUCKETS,
    registry=REGISTRY,
)
REST_REQUESTS = Counter(
    "wsc_rest_requests",
    "REST requests whose answer has begun, by route and status.",
    ("method", "route", "status"),
    registry=REGISTRY,
)
REST_SECONDS = Histogram(
    "wsc_rest_request_seconds",
    "Time from a REST request to the beginning of its answer.",
    ("method", "route"),
    buckets=_CALL_BUCKETS,
    registry=REGISTRY,
)
STREAM_FOLLOWERS = Gauge(
    "wsc_rest_stream_followers", "Open streams of changes (server-sent events).", registry=REGISTRY
)
LOG_FOLLOWERS = Gauge(
    "wsc_rest_log_followers", "Logs of pods that somebody follows.", registry=REGISTRY
)
CYCLE_SECONDS = Histogram(
    "wsc_scheduler_cycle_seconds",
    "Time of one scheduling cycle.",
    buckets=_CYCLE_BUCKETS,
    registry=REGISTRY,
)
DECISIONS = Counter(
    "wsc_scheduler_decisions",
    "Decisions of the scheduler: admit, reject, preempt.",
    ("decision",),
    registry=REGISTRY,
)
START_DELAY_SECONDS = Histogram(
    "wsc_scheduler_start_delay_seconds",
    "Time from the submission of a job to its resources.",
    ("type",),
    buckets=_DELAY_BUCKETS,
    registry=REGISTRY,
)
NOTIFICATIONS = Counter(
    "wsc_notifications",
    "Attempts to tell people of jobs, by channel and outcome: sent, failed.",
    ("channel", "outcome"),
    registry=REGISTRY,
)
PHASE_CHANGES = Counter(
    "wsc_job_phase_changes", "Changes of jobs to a phase.", ("phase",), registry=REGISTRY
)
