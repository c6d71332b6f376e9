"""Detached runs on a real appliance: any script will do, the client's is in tests/conformance."""

import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.appliance_process import (
    ApplianceProcess,
    pods_of,
    processes_of,
    running_appliance,
    wait_for,
)
from tests.support.run_terminal import Terminal


@pytest.fixture(scope="module")
def appliance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApplianceProcess]:
    with running_appliance(tmp_path_factory.mktemp("data"), "--systems", "2") as running:
        yield running


@pytest.fixture
def terminal(appliance: ApplianceProcess, tmp_path: Path) -> Terminal:
    return Terminal(appliance, tmp_path)


def test_a_run_has_the_terminals_directory_and_no_variable_that_was_not_meant(
    terminal: Terminal,
) -> None:
    job = terminal.submit("0", "--name", "first", "-e", "MINE=yes")

    said = terminal.run("attach", job)

    assert f"cwd {terminal.work_dir} uid {os.getuid()} restart 0" in said
    assert "mine yes secret None" in said
    assert job in terminal.run("get", "jobs", "-a", "-l", "name=first")


def test_a_run_that_fails_is_told_by_the_exit_code_of_who_follows_it(terminal: Terminal) -> None:
    job = terminal.submit("7", "--restart-policy", "on=pod+node,limit=3")

    said = terminal.run("attach", job, code=1)

    assert "is not started again (exit code 7, category user" in said
    assert "the script exited with code 7" in said


def test_a_run_that_fails_is_told_by_the_last_error_of_its_script_and_its_line(
    terminal: Terminal,
) -> None:
    cause = f"KeyError: 'sample 7' (at {terminal.work_dir}/script.py:17)"
    job = terminal.submit("raise")

    said = terminal.run("attach", job, code=1)

    assert said.splitlines()[-1].endswith(
        f"Job {job} is FAILED: {cause} (the script exited with code 1)."
    )
    assert "[driver] the script is not started again (exit code 1, category user" in said
    assert f"Reason: {cause} (the script exited with code 1)" in terminal.run("get", "job", job)


def test_a_script_that_is_killed_is_started_again(terminal: Terminal) -> None:
    job = terminal.submit("die", "--restart-policy", "on=pod,limit=1")

    said = terminal.run("attach", job)

    assert said.index("restart 0") < said.index("started again, restart 1") < said.rindex("cwd")
    assert "restart 1\n" in said
    assert "DriverRestarted" in terminal.run("job", "events", job)


def test_a_run_whose_pod_is_lost_gets_a_new_one(
    appliance: ApplianceProcess, terminal: Terminal
) -> None:
    job = terminal.submit("wait", "--restart-policy", "on=pod,limit=1")
    wait_for(lambda: "restart 0" in terminal.run("logs", job), what="the script's first line")

    for pid in pods_of(job):
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: "restart 1\n" in terminal.run("logs", job), what="the second start")
    assert "started again in a new pod, restart 1" in terminal.run("logs", job)
    assert "DriverRestarted" in terminal.run("job", "events", job)

    for pid in pods_of(job):
        os.kill(pid, signal.SIGKILL)
    said = terminal.run("attach", job, code=1)
    assert "all 1 restart(s) are used up" not in said  # the pod cannot say so any more
    assert "FAILED" in terminal.run("get", "job", job)


def test_a_run_of_a_program_that_does_not_exist_is_refused(terminal: Terminal) -> None:
    for more in ((), ("--array", "1-3")):
        said = terminal.run("submit", *more, "--", "no-such-program", code=2)

        assert "There is no program 'no-such-program' on PATH" in said


def test_the_token_of_a_run_is_in_no_log_whole_or_cut_off(terminal: Terminal) -> None:
    (terminal.work_dir / "leak.py").write_text(
        "import os, sys\n"
        "token = os.environ['CSAUTH_TOKEN']\n"
        "print('whole', token, 'other', os.environ['MY_PASSWORD'], flush=True)\n"
        "sys.exit(f'start {token[:40]}')\n"
    )
    variable = "MY_PASSWORD=hunter2-hunter2"

    said = terminal.run(
        *("submit", "--attach", "-e", variable, "--", sys.executable, "leak.py"), code=1
    )

    assert "whole [redacted] other [redacted]\n" in said
    assert "start [redacted]\n" in said
    assert "eyJ" not in said


def test_who_detaches_leaves_the_run_alone_and_who_cancels_ends_it(terminal: Terminal) -> None:
    job = terminal.submit("wait", "--name", "waits", "-l", "team=nlp")
    follower = terminal.start("attach", "waits")
    assert follower.stdout is not None
    assert follower.stdout.readline().startswith("cwd")

    follower.send_signal(signal.SIGINT)
    said, _ = follower.communicate(timeout=300)
    assert "the run goes on" in said
    assert follower.returncode == 0
    assert "RUNNING" in terminal.run("get", "job", job)

    listed = json.loads(terminal.run("get", "runs", "-l", "team=nlp", "-o", "json"))["items"]
    assert [(run["name"], run["logJob"], run["phase"]) for run in listed] == [
        ("waits", job, "RUNNING")
    ]
    run = terminal.run("get", "run", "waits")
    assert f"Directory: {terminal.work_dir}" in run
    assert f"Command: {sys.executable} script.py wait" in run
    assert terminal.run("get", "run", job, "-o", "name") == f"{listed[0]['runId']}\n"
    assert "There is no job or run 'nowhere'" in terminal.run("logs", "nowhere", code=2)
    assert terminal.run("logs", "waits").startswith("cwd")

    def restarts() -> int:
        return terminal.run("logs", "waits").count("cwd")

    assert "is held" in terminal.run("hold", "waits")
    wait_for(lambda: "Held" in terminal.run("explain", "job", job) or None, what="a held run")
    assert "held by" in terminal.run("get", "run", "waits").partition("Reason: ")[2]
    assert "is resumed" in terminal.run("resume", "waits")
    wait_for(lambda: restarts() == 2, what="a second start")
    assert "is queued again" in terminal.run("requeue", "waits")
    wait_for(lambda: restarts() == 3, what="a third start")
    assert "restart 2" in terminal.run("logs", "waits", "--tail", "2")
    assert "is not held" in terminal.run("resume", "waits", code=2)

    watcher = terminal.start("get", "runs", "-w", "-l", "team=nlp")
    assert watcher.stdout is not None
    assert [
        " PHASE " in line for line in (watcher.stdout.readline(), watcher.stdout.readline())
    ] == [
        True,
        False,
    ]
    assert terminal.run("cancel", "run", "waits") == "Job canceled successfully\n"
    assert any(" CANCELLED " in line for line in watcher.stdout)
    watcher.send_signal(signal.SIGINT)
    watcher.communicate(timeout=300)
    assert "CANCELLED" in terminal.run("get", "job", job)
    assert "is CANCELLED already" in terminal.run("cancel", "run", "waits", code=2)
    wait_for(lambda: not processes_of(job), what="the end of the script's processes")


def test_the_jobs_of_a_run_with_a_time_limit_are_ended_by_it_and_others_wait_by_it(
    appliance: ApplianceProcess, terminal: Terminal
) -> None:
    said = terminal.run("submit", "--time-limit", "soon", "--", "true", code=2)
    assert "Time limit 'soon' is not understood" in said
    driver = terminal.submit("token", "--time-limit", "1h30m", "--name", "limited")
    running = terminal.submit_as_script(appliance, num_systems=2)
    appliance.wait_ready(running)
    waiting = appliance.submit_execute(num_systems=1)

    wait_for(lambda: "Basis" in terminal.run("explain", "job", waiting), what="a cycle")

    assert f"end of {running}, by time limit" in terminal.run("explain", "job", waiting)
    assert "1h29m" in terminal.run("get", "queue")
    assert running in terminal.run("get", "jobs", "-l", "name=limited"), "its run's label"
    assert re.search(rf"{running}\s+execute", terminal.run("get", "run", "limited"))
    for job in (waiting, driver):
        terminal.run("cancel", "job", job)


def test_logs_are_kept_and_can_be_cut_to_their_last_lines(terminal: Terminal) -> None:
    job = terminal.submit("0")
    terminal.run("attach", job)

    assert terminal.run("logs", job, "--tail", "1") == "mine None secret None\n"
    assert terminal.run("logs", job, "--list") == f"{job}-driver-0\n"
    assert "It has: driver-0" in terminal.run("logs", job, "--pod", "chief-0", code=2)


def test_a_run_that_wants_more_systems_than_there_are_is_refused_at_once(
    terminal: Terminal,
) -> None:
    said = terminal.run("submit", "--systems", "3", "--", "true", code=2)

    assert "asks for 3 systems; the cluster has 2" in said


def test_an_array_is_listed_waited_for_and_cancelled_as_one(terminal: Terminal) -> None:
    run = ("--", sys.executable, "script.py")
    said = terminal.run("submit", "--array", "4-6:2", "--name", "sweep", *run, "index")
    jobs = re.findall(r"job/(wsjob-\w+) was submitted, index (\d)", said)
    assert [index for _, index in jobs] == ["4", "6"]
    array = re.findall(r"array-[a-z0-9]{22}", said)[0]
    for job, index in jobs:
        assert f"index {index} of 2" in terminal.run("attach", f"sweep.{index}")
        assert job in terminal.run("get", "run", f"sweep.{index}")
    after = terminal.submit("0", "--after", array)
    terminal.run("attach", after)
    assert terminal.run("get", "jobs", "-a", "-l", f"array={array}").count("SUCCEEDED") == 2

    said = terminal.run("submit", "--array", "1,3%1", *run, "wait")
    array = re.findall(r"array-[a-z0-9]{22}", said)[0]
    second = re.findall(r"job/(wsjob-\w+)", said)[1]
    assert "at most 1 run(s) go on at once" in terminal.run("explain", "job", second)
    rescue = terminal.submit("0", "--dependency", f"afternotok:{array}")
    waiting = terminal.submit("0", "--after", array, "--name", "last")
    assert "Dependency" in terminal.run("explain", "job", waiting)
    behind = terminal.submit("0", "--after", "last")
    assert f"starts when {waiting} has succeeded" in terminal.run("explain", "job", behind)
    assert re.search(rf"{waiting}\s+last\s+driver", terminal.run("get", "queue"))
    assert "index=3" in terminal.run("get", "jobs", "-l", f"array={array}")
    assert terminal.run("cancel", "job", array).count("Job canceled successfully") == 2
    first = re.findall(r"job/(wsjob-\w+)", said)[0]
    assert "Job canceled successfully" in terminal.run("cancel", "job", first), "as it was before"
    labelled = json.loads(terminal.run("label", "job", first, "team=nlp", "-ojson"))
    assert (labelled["meta"]["name"], labelled["meta"]["labels"]["team"]) == (first, "nlp")
    terminal.run("attach", waiting, code=1)
    assert "it was to start after" in terminal.run("job", "events", waiting)
    terminal.run("attach", rescue)
    refused = terminal.run("submit", "--after", array, *run, "0", code=2)
    assert "is CANCELLED; nothing can start after its success" in refused
    assert "has no unfinished run" in terminal.run("cancel", "job", array, code=2)


def test_an_array_of_too_many_runs_leaves_none_behind(terminal: Terminal) -> None:
    said = terminal.run("submit", "--array", "1-65", "--", sys.executable, "script.py", "0", code=2)
    assert "An array of 65 runs is not possible" in said
    assert "index=65" not in terminal.run("get", "jobs", "-a")
