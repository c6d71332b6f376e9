"""A finished job of the unmodified client shows simulated wafer time beside wall time."""

import json
import re
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from appliance.core.quantities import duration
from tests.support.appliance import Appliance
from tests.support.client import start_client

CLUSTER_WARNINGS = (
    "as it appears to be a dev environment",
    "TLS certificate was not provided",
    "Could not find coordinator IP:port",
    "csconfig file",
)
"""What the client says of a cluster without namespaces, certificates or a compile coordinator."""

pytestmark = [pytest.mark.client, pytest.mark.slow]


def rest(appliance: Appliance, path: str) -> Any:
    found = re.search(r"REST +(\S+)", appliance.command("status", program="appliance"))
    assert found is not None
    with urllib.request.urlopen(f"{found[1]}{path}") as answer:
        return json.load(answer)


def test_a_finished_job_shows_simulated_time(appliance: Appliance, tmp_path: Path) -> None:
    run = start_client(
        tmp_path,
        *("--model", "mlp_sgd", "--steps", "5", "--num-csx", "2"),
        config=Path(appliance.config_path),
    )
    run.result()
    for warning in CLUSTER_WARNINGS:
        assert warning not in run.text(), "a real cluster does not cause it"
    hashes = [path.name for path in appliance.data_dir.rglob("cs_*") if path.is_dir()]
    assert hashes
    assert all(re.fullmatch(r"cs_[0-9]{1,20}", name) for name in hashes)
    name = next(
        job["meta"]["name"]  # type: ignore[index]
        for job in appliance.jobs()
        if job["spec"]["type"] == "execute"  # type: ignore[index]
    )

    properties = json.loads(appliance.csctl("get", "job", name, "-o", "json"))["meta"]["properties"]
    step = float(properties["simulated_step_seconds"])
    assert 0 < step < 1
    assert float(properties["simulated_seconds"]) == pytest.approx(5 * step, rel=1e-4)
    assert 0 < float(properties["simulated_utilization"]) < 1
    assert float(properties["wall_seconds"]) > 0
    rates = [float(properties[f"chief-{n}/simulated_samples_per_second"]) for n in (0, 1)]
    assert float(properties["simulated_samples_per_second"]) == pytest.approx(sum(rates), rel=1e-4)

    document = yaml.safe_load(appliance.csctl("get", "job", name, "-o", "yaml"))
    assert document["meta"]["properties"] == properties
    table = appliance.csctl("get", "job", name)
    assert "SIMULATED-STEP" in table
    assert re.search(rf"^all +{re.escape(duration(step))} ", table, re.M)
    assert "Progress: step 5 of 5" in table
    assert properties["steps_completed"] == properties["steps_planned"] == 5

    session = json.loads(appliance.csctl("get", "job", name, "--session", "1", "-o", "json"))
    assert (session["isTraining"], session["numSteps"], session["completedSteps"]) == (True, 5, 5)
    assert session["readings"]["simulated_step_seconds"] == pytest.approx(step, rel=1e-6)
    (kept,) = rest(appliance, f"/jobs/{name}/sessions")["items"]
    assert kept["readings"] == session["readings"]
    assert rest(appliance, f"/jobs/{name}/wafer?session=1") == rest(
        appliance, f"/jobs/{name}/wafer"
    )

    profile = json.loads(appliance.csctl("profile", "job", name, "--top", "99", "-o", "json"))
    assert sum(row["percent"] for row in profile["items"]) == pytest.approx(100)
    assert sum(row["simulated_seconds"] for row in profile["items"]) == pytest.approx(
        step, rel=1e-4
    )
    assert {"fwd", "bwd"} <= {row["direction"] for row in profile["items"]}

    job = rest(appliance, f"/jobs/{name}")
    (event,) = [event for event in job["events"] if event["reason"] == "SessionTimed"]
    assert "simulated wafer time" in event["message"]
    assert "for 5 steps on 2 system(s)" in event["message"]
    (chief, _) = [pod for pod in job["pods"] if pod["role"] == "chief"]
    assert chief["readings"]["wsc_csx_simulated_step_seconds"] == pytest.approx(step, rel=1e-4)
    check_logs(appliance, name)


def check_logs(appliance: Appliance, job: str) -> None:
    """Logs of any pod are text, and the JSON that is kept on request."""
    for command in (("logs", job), ("logs", job, "--pod", "weight-0"), ("attach", job)):
        kept = appliance.csctl(*command, "--json").splitlines()
        ours = [json.loads(line) for line in kept if line.startswith("{")]
        text = appliance.csctl(*command)
        assert ours, command
        assert [each for each in ours if each["message"] not in text] == []
        assert re.search(r"^\{", text, re.M) is None, command


def test_each_session_keeps_its_readings_profile_and_picture(
    appliance: Appliance, tmp_path
) -> None:
    arguments = ("--model", "gpt_adamw", "--steps", "2", "--train-eval-train-eval")
    start_client(tmp_path, *arguments, address=appliance.address).result()
    name = next(
        job["meta"]["name"]  # type: ignore[index]
        for job in appliance.jobs()
        if job["spec"]["type"] == "execute"  # type: ignore[index]
    )
    sessions = rest(appliance, f"/jobs/{name}/sessions")["items"]
    assert [each["is_training"] for each in sessions] == [True, False, True, False]
    for number, session in enumerate(sessions, 1):
        step = session["readings"]["simulated_step_seconds"]
        wanted = ("profile", "job", name, "--session", str(number), "--top", "99", "-o", "json")
        rows = json.loads(appliance.csctl(*wanted))["items"]
        assert sum(row["simulated_seconds"] for row in rows) == pytest.approx(step, rel=1e-4)
        assert ("bwd" in {row["direction"] for row in rows}) == session["is_training"]
        trace = rest(appliance, f"/jobs/{name}/profile?session={number}")["traceEvents"]
        assert any(event["cat"] == "bwd" for event in trace) == session["is_training"]
        picture = rest(appliance, f"/jobs/{name}/wafer?session={number}")
        assert any(layer["is_backward"] for layer in picture["layers"]) == session["is_training"]
    last = rest(appliance, f"/jobs/{name}/profile?session=4")
    assert rest(appliance, f"/jobs/{name}/profile") == last
