"""The table of docs/metrics.md: every metric that `/metrics` can have, from what makes them."""

from collections.abc import Iterator
from pathlib import Path

from prometheus_client.core import Metric

from appliance.core.clock import SystemClock
from appliance.core.cluster.readings import HELP
from appliance.management.cluster.collector import ApplianceCollector
from appliance.management.cluster.inventory import Inventory
from appliance.management.store.state import State
from appliance.observability.metrics import REGISTRY
from appliance.storage.engine.database import Database
from tests.support.management import make_model

MARK = "<!-- Below this line everything is generated: METRICS_WRITE=1 pytest tests/unit -->"
_POD = "wsjob, replica_type, replica_id"


def families(directory: Path) -> list[tuple[str, str, str, str]]:
    """Return name, kind, labels and meaning of each metric of ours."""
    state = State.over(Database.open_sqlite(directory / "state.db"), SystemClock())
    state.sessions.ensure()
    collector = ApplianceCollector(state, Inventory(state, make_model(state)), SystemClock())
    found = [_row(each, _labels_of(each)) for each in collector.collect()]
    counted = getattr(REGISTRY, "_collector_to_names")  # noqa: B009 - prometheus_client shows them nowhere
    for source in counted:
        if (labels := getattr(source, "_labelnames", None)) is not None:  # else of the process
            found += [_row(each, ", ".join(labels)) for each in source.describe()]
    found += [
        (name, "counter" if name.endswith("_total") else "gauge", _POD, text)
        for name, text in HELP.items()
    ]
    return sorted(found)


def _row(metric: Metric, labels: str) -> tuple[str, str, str, str]:
    suffix = "_total" if metric.type == "counter" else ""
    return f"{metric.name}{suffix}", metric.type, labels, metric.documentation


def _labels_of(metric: Metric) -> str:
    return ", ".join(getattr(metric, "_labelnames", ()))


def table(rows: list[tuple[str, str, str, str]]) -> Iterator[str]:
    """Yield the lines of the table."""
    yield from ("", "| metric | kind | labels | meaning |", "|---|---|---|---|")
    for name, kind, labels, text in rows:
        yield f"| `{name}` | {kind} | {labels} | {text} |"
    yield ""
