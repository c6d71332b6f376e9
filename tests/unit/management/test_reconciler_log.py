"""What the reconciler logs: impossible events with the job's story, cycles with their durations."""

import io
import json
import logging

import pytest

from appliance.core.cluster.jobs import Phase
from appliance.management.reconciler import job_machine as machine
from appliance.management.reconciler.mailbox import Happened
from appliance.observability.logging import configure_logging
from tests.support.reconciling import running_harness
from tests.unit.management.test_reconciler import run


def test_what_cannot_happen_to_a_job_is_logged_with_its_story(tmp_path, caplog):
    with running_harness(tmp_path) as harness:
        job = run(harness, "wsjob-r", num_systems=1)
        harness.mailbox.post(Happened(job=job, event=machine.Admitted(systems=("systemf0",))))
        harness.until(lambda: "does not allow" in caplog.text)
        (line,) = [each for each in caplog.records if "does not allow" in each.message]
        assert (line.job, line.phase, line.levelno) == (job, "INITIALIZING", logging.ERROR)
        assert "Admitted" in line.event
        assert len(line.story) >= 2
        assert harness.jobs.load(job).phase is Phase.INITIALIZING


def test_a_scheduling_cycle_has_a_number_in_the_log_and_says_how_long_it_took(tmp_path, log_lines):
    with running_harness(tmp_path) as harness:
        run(harness, "wsjob-r", num_systems=1)
        first = harness.mailbox.published.cycle
        run(harness, "wsjob-s", num_systems=1)
    lines = log_lines()
    admitted = [
        (line["job"], line["scheduling_cycle"])
        for line in lines
        if line.get("phase") == "SCHEDULED"
    ]
    assert [job for job, _ in admitted] == ["wsjob-r", "wsjob-s"]
    ended = {
        line["scheduling_cycle"]: line
        for line in lines
        if line["message"] == "Scheduling cycle ended"
    }
    assert [ended[cycle]["decisions"] for _, cycle in admitted] == [1, 1]
    assert all(ended[cycle]["deciding_ms"] >= 0 <= ended[cycle]["acting_ms"] for cycle in ended)
    assert admitted[0][1] <= first < admitted[1][1]
    assert all("scheduling_cycle" not in line for line in lines if "pods" in line)


@pytest.fixture
def log_lines():
    """Lets what is logged be read as the objects that pods and services write."""
    root, out = logging.getLogger(), io.StringIO()
    handlers, level = root.handlers[:], root.level
    configure_logging(as_json=True, stream=out)
    yield lambda: [json.loads(line) for line in out.getvalue().splitlines()]
    root.handlers[:] = handlers
    root.setLevel(level)
