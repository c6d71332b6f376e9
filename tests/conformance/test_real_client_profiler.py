"""The client's op profiler, unmodified: its table and its Chrome trace, from simulated time."""

import itertools
import json
import re
from pathlib import Path

import pytest

from tests.support.appliance import Appliance
from tests.support.chrome_trace import assert_chrome_trace
from tests.support.client import start_client

pytestmark = [pytest.mark.client, pytest.mark.slow]

ROW = re.compile(
    r"\| +\d+ \| (?P<name>\S.*?) +\| +(?P<time>[\d.e+-]+) +\| +(?P<percent>[\d.e+-]+) +\|"
)


def test_the_profiler_shows_where_simulated_time_goes(appliance: Appliance, tmp_path: Path) -> None:
    run = start_client(
        tmp_path,
        *("--model", "gpt_adamw", "--steps", "4", "--profile-steps", "2", "3"),
        address=appliance.address,
    )
    rows = [found.groupdict() for found in ROW.finditer(run.result()["profile"])]
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert_chrome_trace(trace)
    events = trace["traceEvents"]
    modules = [event for event in events if " = " not in event["name"]]
    whole = events[-1]["ts"] + events[-1]["dur"]

    assert len(rows) == 10
    assert any(row["name"].endswith(".fwd") for row in rows)
    assert any(row["name"].endswith(".bwd") for row in rows)
    percents = [float(row["percent"]) for row in rows]
    assert percents == sorted(percents, reverse=True)
    names = {event["name"] for event in modules}
    assert {row["name"] for row in rows} <= names
    assert sum(event["dur"] for event in modules) == pytest.approx(whole)

    assert [event["name"] for event in events if "step = " in event["name"]] == [
        "step = 2",
        "step = 3",
    ]
    for event in events:
        assert event["ph"] == "X"
        assert event["ts"] >= 0
        assert event["dur"] > 0
        assert {"name", "pid", "tid", "cat"} <= event.keys()
    for event, following in itertools.pairwise(modules):
        assert following["ts"] == pytest.approx(event["ts"] + event["dur"])
