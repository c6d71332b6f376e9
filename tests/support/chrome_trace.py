"""Checks traces against Chrome's trace event format."""

import json
from collections.abc import Mapping
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]

_SCHEMA = json.loads(Path(__file__).with_name("chrome_trace.schema.json").read_text())
_ROUNDING = 1e-3
"""Microseconds; far below what a trace viewer shows."""


def assert_chrome_trace(trace: Mapping[str, object]) -> None:
    """Check the shape of every event, and that complete events of a thread nest.

    The schema cannot say the latter; the format's document demands it.
    """
    document = json.loads(json.dumps(trace, allow_nan=False))
    jsonschema.Draft202012Validator(_SCHEMA).validate(document)
    open_ends: dict[tuple[object, object], list[float]] = {}
    complete = [event for event in document["traceEvents"] if event["ph"] == "X"]
    for event in sorted(complete, key=lambda event: (event["ts"], -event["dur"])):
        ends = open_ends.setdefault((event["pid"], event["tid"]), [])
        while ends and ends[-1] <= event["ts"] + _ROUNDING:
            ends.pop()
        end = event["ts"] + event["dur"]
        assert not ends or end <= ends[-1] + _ROUNDING, f"{event['name']} overlaps another event"
        ends.append(end)
