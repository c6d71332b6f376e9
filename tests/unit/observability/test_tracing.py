"""Traces are off unless started, and what a job's spans are."""

import datetime as dt
import subprocess
import sys

import pytest

from appliance.core.cluster.jobs import Phase
from appliance.core.ids import JobId
from appliance.management.logs.job_traces import spans_of
from appliance.observability import tracing
from tests.support.clock import FakeClock
from tests.support.management import move, new_job, opened_state


def test_while_tracing_is_off_nothing_happens():
    with tracing.span("a block"):
        assert tracing.here() == ""
    assert tracing.begin_job() == ("", "")


def test_opentelemetry_is_not_loaded_while_tracing_is_off():
    program = (
        "import sys, appliance.observability.traced_calls as calls; calls.traced_server();"
        "sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize(("message", "error"), [("a pod died", "a pod died"), ("", "failed")])
def test_a_job_and_each_of_its_phases_are_spans(tmp_path, message, error):
    clock = FakeClock()
    with opened_state(tmp_path, clock) as state:
        job = state.jobs.create(new_job()).id
        before = Phase.QUEUED
        for phase in (Phase.SCHEDULED, Phase.INITIALIZING, Phase.FAILED):
            clock.advance(2.5)
            move(state.jobs, job, before, phase, message=message)
            before = phase
        record, events = state.jobs.load(JobId("wsjob-a")), state.jobs.events(job)
        whole, *parts = spans_of(record, events, own="own", parent="above")
    assert (whole.own, whole.parent, whole.error) == ("own", "above", error)
    assert whole.end_ns - whole.start_ns == 7_500_000_000
    assert whole.start_ns == int(dt.datetime(2024, 5, 1, tzinfo=dt.UTC).timestamp()) * 10**9
    assert {part.parent for part in parts} == {"own"}
    assert [part.name.split()[1] for part in parts] == [
        "CREATED",
        "QUEUED",
        "SCHEDULED",
        "INITIALIZING",
    ]
    assert parts[-1].end_ns == whole.end_ns
