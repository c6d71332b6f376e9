"""How far a job is and when the one behind it starts, while sessions come and go."""

import datetime as dt
import json
import os
import re
import subprocess
import sys
from typing import Any

import grpc
import httpx
import pytest
from playwright.sync_api import expect

from protos.wsc.v1 import management_pb2, management_pb2_grpc
from tests.e2e.conftest import Opener
from tests.support.appliance_process import ApplianceProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.browser


def csctl(appliance: ApplianceProcess, *arguments: str) -> Any:
    """Return what csctl answers, as JSON."""
    done = subprocess.run(
        [sys.executable, "-m", "csctl", *arguments, "-o", "json"],
        env={**os.environ, "CSCONFIG_PATH": str(appliance.state.config_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return json.loads(done.stdout)


def report(appliance: ApplianceProcess, job: str, **session: object) -> None:
    """Report a session as a coordinator does."""
    told = management_pb2.RunSessionReport(
        num_steps=600, is_training=True, step_seconds=0.4, **session
    )
    with grpc.insecure_channel(f"unix:{appliance.state.runtime_root}/management.sock") as channel:
        stub = management_pb2_grpc.ManagementStub(channel)
        stub.ReportJob(management_pb2.JobReport(job=job, session=told))


def test_progress_and_expected_starts_follow_the_sessions_of_a_job(
    idle: ApplianceProcess, opener: Opener
) -> None:
    running = idle.submit_execute(num_systems=2)
    idle.wait_ready(running)
    waiting = idle.submit_execute(num_systems=1)
    root = idle.state.rest_url
    job, queue = opener(root).open(f"/jobs/{running}"), opener(root).open("/queue")
    row = queue.get_by_role("table", name="Waiting jobs").get_by_role("row")
    behind = row.filter(has_text=waiting)
    expect(behind).to_contain_text("by default: no time limit, and no earlier run of its user")

    report(idle, running, session=1, completed_steps=450)
    bar = job.get_by_role(
        "img", name=re.compile(r"^step 450 of 600, (1 min|5\d s)( \d+ s)? to go$")
    )
    expect(bar).to_be_visible()
    expect(bar.locator(".bar-fill")).to_have_attribute("style", "width: 75%;")
    expect(behind).to_contain_text("by its own steps: step 450 of 600")

    report(idle, running, session=1, completed_steps=600, is_over=True)
    expect(job.get_by_text("step 600 of 600, no session runs now", exact=True)).to_be_visible()
    expect(bar).to_have_count(0)
    expect(behind).to_contain_text(
        re.compile(
            r"by its own sessions: 1 complete, and \d+ s from the last to its end; it has no"
        )
    )

    report(idle, running, session=2, completed_steps=3)
    expect(job.get_by_role("img", name=re.compile(r"^step 3 of 600, "))).to_be_visible()
    expect(behind).to_contain_text("by its own steps: step 3 of 600")


def test_csctl_rest_and_the_pages_tell_one_expected_start(
    idle: ApplianceProcess, opener: Opener
) -> None:
    running = idle.submit_execute(num_systems=2)
    idle.wait_ready(running)
    waiting = idle.submit_execute(num_systems=1)
    report(idle, running, session=1, completed_steps=300)
    root = idle.state.rest_url
    rest = f"{root}/api/v1"

    def told_by_rest() -> Any:
        return httpx.get(f"{rest}/jobs/{waiting}/waiting").json()

    wait_until(
        lambda: "step 300 of 600" in (told_by_rest() or {}).get("expected_start_basis", ""),
        seconds=60,
        what="an expected start by steps",
        seen=lambda: str(told_by_rest()),
    )
    explained, (queued,) = (
        csctl(idle, "explain", "job", waiting),
        csctl(idle, "get", "queue")["items"],
    )
    (item,) = httpx.get(f"{rest}/queue").json()["items"]
    shown = opener(root).open("/queue").get_by_role("table", name="Waiting jobs")

    at = told_by_rest()["expected_start_at"]
    assert item["waiting"]["expected_start_at"] == at
    assert explained["expectedStart"] == queued["expectedStart"] == at
    clock = dt.datetime.fromisoformat(at).astimezone().strftime("%H:%M:%S")
    told = shown.get_by_title(f"{clock}: end of {running}, by its own steps: step 300 of 600")
    expect(told).to_be_visible()


def test_a_node_group_says_what_kind_it_is(idle: ApplianceProcess, opener: Opener) -> None:
    page = opener(idle.state.rest_url).open("/")
    groups = page.get_by_role("region", name="MemoryX node groups").get_by_role("row")
    expect(groups.filter(has_text="nodegroup0")).to_contain_text(re.compile("regular|large"))
