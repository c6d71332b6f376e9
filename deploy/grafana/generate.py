"""Write the Grafana dashboards, whose panels are listed here: run `deploy/grafana/generate.py`."""

import json
from dataclasses import dataclass
from pathlib import Path

DASHBOARDS = Path(__file__).parents[2] / "helm/wsc-appliance/files/grafana"
_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
_WIDTH, _HEIGHT, _COLUMNS = 8, 7, 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One panel.

    Attributes:
        title: What it shows.
        queries: PromQL by legend.
        unit: Grafana's name of the unit.
        kind: `timeseries`, `stat` or `table`.
        text: What it tells, for the tooltip.
    """

    title: str
    queries: dict[str, str]
    unit: str = "short"
    kind: str = "timeseries"
    text: str = ""


CLUSTER = {
    "Systems": [
        Panel(
            title="Systems in use",
            queries={"in use": "sum(wsc_cluster_system_busy)", "up": "sum(wsc_cluster_system_up)"},
            kind="stat",
        ),
        Panel(
            title="System state",
            queries={"{{system}} {{state}}": "wsc_cluster_system_up"},
            text="1: gets jobs. 0: drained, in maintenance or unhealthy.",
        ),
        Panel(title="System busy", queries={"{{system}}": "wsc_cluster_system_busy"}),
        Panel(
            title="Simulated utilisation",
            queries={
                "{{wsjob}} csx-{{replica_id}}": "wsc_csx_simulated_utilization_ratio",
            },
            unit="percentunit",
            text="Multiply-adds done over those possible, by the timing model.",
        ),
    ],
    "Nodes": [
        Panel(title="Node CPU", queries={"{{node}}": "wsc_node_cpu_ratio"}, unit="percentunit"),
        Panel(
            title="Node memory", queries={"{{node}}": "wsc_node_memory_ratio"}, unit="percentunit"
        ),
        Panel(
            title="MemoryX node groups in use",
            queries={"{{nodegroup}} {{kind}}": "wsc_cluster_node_group_busy"},
        ),
    ],
    "Queue": [
        Panel(
            title="Waiting jobs",
            queries={
                "{{type}} {{priority}}": 'sum by (type, priority) (wsc_queue_jobs{phase="QUEUED"})'
            },
        ),
        Panel(title="Jobs by phase", queries={"{{phase}}": "sum by (phase) (wsc_queue_jobs)"}),
        Panel(title="Longest wait", queries={"oldest": "wsc_queue_oldest_wait_seconds"}, unit="s"),
        Panel(
            title="Delay from submission to start, 90th percentile",
            queries={
                "{{type}}": "histogram_quantile(0.9, sum by (type, le) "
                "(wsc_scheduler_start_delay_seconds_bucket))"
            },
            unit="s",
        ),
        Panel(
            title="Scheduling cycle, mean",
            queries={
                "cycle": "wsc_scheduler_cycle_seconds_sum / wsc_scheduler_cycle_seconds_count"
            },
            unit="s",
        ),
        Panel(
            title="Decisions",
            queries={"{{decision}}": "increase(wsc_scheduler_decisions_total[5m])"},
        ),
    ],
    "Services": [
        Panel(
            title="gRPC calls",
            queries={"{{method}} {{code}}": "rate(wsc_grpc_calls_total[5m])"},
            unit="reqps",
        ),
        Panel(
            title="gRPC time, 99th percentile",
            queries={
                "{{method}}": "histogram_quantile(0.99, sum by (method, le) "
                "(wsc_grpc_call_seconds_bucket))"
            },
            unit="s",
        ),
        Panel(
            title="REST requests",
            queries={"{{route}} {{status}}": "rate(wsc_rest_requests_total[5m])"},
            unit="reqps",
        ),
        Panel(
            title="REST time, 99th percentile",
            queries={
                "{{route}}": "histogram_quantile(0.99, sum by (route, le) "
                "(wsc_rest_request_seconds_bucket))"
            },
            unit="s",
        ),
        Panel(title="Open streams", queries={"followers": "wsc_rest_stream_followers"}),
        Panel(
            title="Memory of management",
            queries={"resident": "process_resident_memory_bytes"},
            unit="bytes",
        ),
    ],
}

_JOB = 'wsjob=~"$wsjob"'
_OUTPUTS = 'output!="samples_per_second"'
_SIMULATED_RATE = "wsc_csx_simulated_samples_per_second"
_STARVED = "wsc_csx_input_starved_steps_total"
_POD = f'{_JOB}, replica_type=~"$replica_type", replica_id=~"$replica_id"'

WSJOB = {
    "Overview": [
        Panel(title="Jobs", queries={"{{wsjob}}": f"wsc_job_info{{{_JOB}}}"}, kind="table"),
        Panel(
            title="Running for",
            queries={"{{wsjob}}": f"wsc_job_running_seconds{{{_JOB}}}"},
            unit="s",
            kind="stat",
        ),
        Panel(title="Step", queries={"{{wsjob}}": f"wsc_job_steps{{{_JOB}}}"}, kind="stat"),
        Panel(
            title="Loss and other outputs",
            queries={"{{wsjob}} {{output}}": f"wsc_job_output_value{{{_JOB}, {_OUTPUTS}}}"},
        ),
        Panel(
            title="Samples per second",
            queries={
                "wall {{wsjob}}": f'wsc_job_output_value{{{_JOB}, output="samples_per_second"}}',
                "simulated {{wsjob}}": f"sum by (wsjob) ({_SIMULATED_RATE}{{{_JOB}}})",
            },
        ),
    ],
    "Replicas": [
        Panel(
            title="Memory of pods",
            queries={"{{replica_type}}-{{replica_id}}": f"wsc_pod_resident_bytes{{{_POD}}}"},
            unit="bytes",
        ),
        Panel(
            title="Steps of pods",
            queries={"{{replica_type}}-{{replica_id}}": f"wsc_pod_steps{{{_POD}}}"},
        ),
    ],
    "MemoryX performance": [
        Panel(
            title="Iteration",
            queries={
                "wall csx-{{replica_id}}": f"wsc_csx_step_seconds{{{_JOB}}}",
                "simulated csx-{{replica_id}}": f"wsc_csx_simulated_step_seconds{{{_JOB}}}",
            },
            unit="s",
        ),
        Panel(
            title="Update (cross-iteration), seconds per second",
            queries={
                "update": f"rate(wsc_memoryx_update_seconds_total{{{_JOB}}}[1m])",
                "waits for sums": f"rate(wsc_memoryx_sums_wait_seconds_total{{{_JOB}}}[1m])",
            },
            unit="percentunit",
            text="High update: the optimizer is the bottleneck.",
        ),
        Panel(
            title="Weights broadcast",
            queries={
                "swarmx-{{replica_id}}": f"deriv(wsc_swarmx_broadcast_copied_bytes{{{_JOB}}}[1m])"
            },
            unit="Bps",
        ),
        Panel(
            title="Systems wait for weights",
            queries={"csx-{{replica_id}}": f"deriv(wsc_csx_weight_wait_seconds{{{_JOB}}}[1m])"},
            unit="percentunit",
            text="Part of the time; a stalled stream shows here.",
        ),
        Panel(
            title="Input starvation",
            queries={
                "csx-{{replica_id}} waits": f"deriv(wsc_csx_input_wait_seconds{{{_JOB}}}[1m])",
                "starved steps csx-{{replica_id}}": f"rate({_STARVED}{{{_JOB}}}[1m])",
            },
        ),
        Panel(
            title="Dataloader",
            queries={
                "worker-{{replica_id}}": f"rate(wsc_input_dataloader_seconds_total{{{_JOB}}}[1m])"
            },
            unit="percentunit",
        ),
    ],
    "Simulated wafer": [
        Panel(
            title="Utilisation",
            queries={"csx-{{replica_id}}": f"wsc_csx_simulated_utilization_ratio{{{_JOB}}}"},
            unit="percentunit",
        ),
        Panel(
            title="Weights into a system",
            queries={"csx-{{replica_id}}": f"wsc_csx_simulated_weight_bytes_per_second{{{_JOB}}}"},
            unit="Bps",
        ),
        Panel(
            title="Gradients out of a system",
            queries={
                "csx-{{replica_id}}": f"wsc_csx_simulated_gradient_bytes_per_second{{{_JOB}}}"
            },
            unit="Bps",
        ),
    ],
}


def dashboard(title: str, uid: str, rows: dict[str, list[Panel]], variables: list[dict]) -> dict:
    """Return a dashboard as Grafana reads it."""
    panels, top, number = [], 0, 0
    for row, members in rows.items():
        number += 1
        panels.append(
            {
                "type": "row",
                "title": row,
                "id": number,
                "collapsed": False,
                "gridPos": {"h": 1, "w": _COLUMNS, "x": 0, "y": top},
                "panels": [],
            }
        )
        top += 1
        for position, panel in enumerate(members):
            number += 1
            line, column = divmod(position, _COLUMNS // _WIDTH)
            place = {"h": _HEIGHT, "w": _WIDTH, "x": column * _WIDTH, "y": top + line * _HEIGHT}
            panels.append(_panel(panel, number, place))
        top += -(-len(members) // (_COLUMNS // _WIDTH)) * _HEIGHT
    return {
        "uid": uid,
        "title": title,
        "tags": ["wafer-appliance"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [_DATASOURCE_VARIABLE, *variables]},
        "panels": panels,
    }


_DATASOURCE_VARIABLE = {
    "name": "datasource",
    "label": "Data source",
    "type": "datasource",
    "query": "prometheus",
}


def _panel(panel: Panel, number: int, place: dict) -> dict:
    is_table = panel.kind == "table"
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.text,
        "datasource": _DATASOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + position),
                "expr": query,
                "legendFormat": legend,
                "datasource": _DATASOURCE,
                "instant": is_table or panel.kind == "stat",
                "format": "table" if is_table else "time_series",
            }
            for position, (legend, query) in enumerate(panel.queries.items())
        ],
    }


def _variable(name: str, query: str) -> dict:
    return {
        "name": name,
        "type": "query",
        "datasource": _DATASOURCE,
        "query": {"query": query, "refId": name},
        "definition": query,
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def documents() -> dict[str, dict]:
    """Return both dashboards by file name."""
    pods = "wsc_pod_resident_bytes"
    variables = [
        _variable("wsjob", "label_values(wsc_job_info, wsjob)"),
        _variable("replica_type", f'label_values({pods}{{wsjob=~"$wsjob"}}, replica_type)'),
        _variable("replica_id", f'label_values({pods}{{wsjob=~"$wsjob"}}, replica_id)'),
    ]
    return {
        "cluster-management.json": dashboard("Cluster Management", "wsc-cluster", CLUSTER, []),
        "wsjob.json": dashboard("WsJob Dashboard", "WebHNShVz", WSJOB, variables),
    }


def main() -> None:
    """Write the files."""
    for name, document in documents().items():
        (DASHBOARDS / name).write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
