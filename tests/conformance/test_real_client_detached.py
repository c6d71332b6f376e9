"""The example script, unmodified client and all, as a detached run."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.appliance import ROOT, Appliance
from tests.support.appliance_process import processes_of
from tests.support.client import PROGRAMS, client_environment, client_venv, start_client
from tests.support.processes import command_of
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.client, pytest.mark.slow]

UNTIL_STEP = 16
SMALL = ("--seq-len", "32", "--batch-size", "4", "--eval-steps", "0")


def submit(appliance: Appliance, work: Path, *options: str) -> str:
    """Submit the example from a terminal of its own, close that terminal, return the driver."""
    script = str(ROOT / "examples" / "gpt" / "train_gpt.py")
    environment = client_environment() | {
        "CSCONFIG_PATH": str(appliance.config_path),
        "PYTHONPATH": str(ROOT),
    }
    program = ("env", "-u", "PYTHONPATH", str(client_venv() / "bin" / "python"), script)
    training = ("--until-step", str(UNTIL_STEP), "--checkpoint-steps", "5", *SMALL)
    terminal = subprocess.run(
        [sys.executable, "-m", "csctl", "submit", *options, "--", *program, *training],
        cwd=work,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        start_new_session=True,
        check=False,
    )
    assert terminal.returncode == 0, terminal.stderr
    found = re.search(r"job/(wsjob-\w+)", terminal.stdout)
    assert found, terminal.stdout
    return found[1]


def output(appliance: Appliance, job: str) -> str:
    return appliance.csctl("logs", job)


def test_a_run_outlives_its_terminal_and_is_restarted_after_a_lost_pod(
    appliance: Appliance, tmp_path: Path
) -> None:
    driver = submit(appliance, tmp_path, "--name", "gpt", "--restart-policy", "on=pod,limit=1")
    wait_until(
        lambda: "saved checkpoints/checkpoint_5.mdl" in output(appliance, driver),
        seconds=400,
        what="the first checkpoint",
        seen=lambda: output(appliance, driver),
    )
    lost = next(
        process
        for process in appliance.processes()
        if any("-chief-0" in word for word in command_of(process))
    )
    os.kill(lost.pid, signal.SIGKILL)

    said = appliance.csctl("attach", driver)

    assert len(re.findall(r"^\[driver\] the script is started again, restart 1", said, re.M)) == 1
    resumed = said[said.index("[driver] the script is started again") :]
    assert re.search(r"resuming from \S+ after step (5|10|15)$", resumed, re.M)
    assert f"train step={UNTIL_STEP} " in resumed
    jobs = appliance.jobs("--workflow", workflow_of(appliance, driver))
    kinds = sorted((job["spec"]["type"], job["status"]["phase"]) for job in jobs)
    assert ("driver", "SUCCEEDED") in kinds
    assert ("execute", "FAILED") in kinds
    assert ("execute", "SUCCEEDED") in kinds


def test_runs_of_an_array_in_one_directory_train_what_each_would_alone(
    appliance: Appliance, tmp_path: Path
) -> None:
    script = PROGRAMS / "sweep.py"
    runs = range(4)  # of the eight that the program knows
    text = f"python {script} --run $WSC_ARRAY_INDEX --out $WSC_ARRAY_INDEX.json"
    environment = client_environment() | {"CSCONFIG_PATH": str(appliance.config_path)}
    together = tmp_path / "the sweep's runs"  # the client quotes no paths
    together.mkdir()
    terminal = subprocess.run(
        [sys.executable, "-m", "csctl", "submit", "--array", "0-3", "--", "sh", "-c", text],
        cwd=together,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    alone = [
        start_client(
            tmp_path / str(run), "--run", str(run), address=appliance.address, program="sweep.py"
        )
        for run in runs
    ]

    for job in re.findall(r"job/(wsjob-\w+)", terminal.stdout):
        appliance.csctl("attach", job)

    found = [json.loads((together / f"{run}.json").read_text()) for run in runs]
    assert found == [client.result() for client in alone]
    assert len({losses["losses"][-1] for losses in found}) == len(runs)
    diverged = [
        job for job in appliance.jobs() if "NaN" in job["meta"]["properties"].get("message", "")
    ]
    assert [job["status"]["phase"] for job in diverged] == ["SUCCEEDED"] * 2, "detached and alone"
    (shown,) = {job["meta"]["properties"]["message"].partition("; ")[2] for job in diverged}
    assert shown == "loss is NaN or infinite since step 2"


def test_a_second_script_in_the_directory_of_another_is_refused_and_the_first_goes_on(
    appliance: Appliance, tmp_path: Path
) -> None:
    address, until = appliance.address, tmp_path / "until"
    first = start_client(
        tmp_path, "--run", "0", "--until", str(until), address=address, program="sweep.py"
    )
    wait_until(
        lambda: "train step 1 " in first.text(),
        seconds=300,
        what="the first step of the first script",
        seen=first.text,
    )
    more = ("--mgmt-address", address, "--out", "second.json")
    # Not forked as the first is: the client draws its workflow when it is imported.
    second = subprocess.run(
        [str(client_venv() / "bin" / "python"), str(PROGRAMS / "sweep.py"), "--run", "1", *more],
        cwd=tmp_path,
        env=client_environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert second.returncode != 0
    assert re.search(
        r"The script of wsjob-\w+ lowers its programs in \S+/cerebras_logs already", second.stderr
    )
    until.touch()
    assert len(first.result()["losses"]) == 4


def test_cancelling_a_driver_cancels_the_jobs_of_its_script(
    appliance: Appliance, tmp_path: Path
) -> None:
    driver = submit(appliance, tmp_path)
    workflow = workflow_of(appliance, driver)
    wait_until(
        lambda: "train step=1 " in output(appliance, driver),
        seconds=400,
        what="the first step",
        seen=lambda: output(appliance, driver),
    )

    appliance.csctl("cancel", "job", driver)

    wait_until(
        lambda: all(
            job["status"]["phase"] in ("CANCELLED", "SUCCEEDED")
            for job in appliance.jobs("--workflow", workflow)
        ),
        seconds=120,
        what="the end of all jobs of the run",
    )
    ended = appliance.jobs("--workflow", workflow)
    phases = {job["spec"]["type"]: job["status"]["phase"] for job in ended}
    assert phases["driver"] == "CANCELLED"
    assert phases["execute"] == "CANCELLED"
    assert_nothing_of_it_runs(driver)


def workflow_of(appliance: Appliance, job: str) -> str:
    found = next(each for each in appliance.jobs() if each["meta"]["name"] == job)
    workflow: str = found["meta"]["workflow"]
    return workflow


def assert_nothing_of_it_runs(job: str) -> None:
    assert processes_of(job) == []
