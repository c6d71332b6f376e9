"""What the unmodified client's user sees when something goes wrong, and what is left afterwards."""

import contextlib
import itertools
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.appliance import Appliance
from tests.support.client import ClientRun, losses, start_client
from tests.support.processes import command_of
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.client, pytest.mark.slow]

ROLES = ["coordinator", "weight", "broadcastreduce", "chief", "activation", "worker"]
LONG_RUN = (
    *("--model", "mlp_sgd", "--steps", "100000", "--num-csx", "2"),
    # A loader that takes its time leaves the machine to whoever has to notice the failure.
    *("--loader", "slow", "--seconds-per-batch", "0.5"),
)


def newest_job(appliance: Appliance, kind: str) -> dict[str, Any]:
    return next(job for job in appliance.jobs() if job["spec"]["type"] == kind)


def phase(appliance: Appliance, name: str) -> str:
    return next(job["status"]["phase"] for job in appliance.jobs() if job["meta"]["name"] == name)


def start_training(appliance: Appliance, work: Path, *arguments: str) -> tuple[ClientRun, str]:
    """Start a long run and wait until its client has seen a few steps."""
    run = start_client(work, *LONG_RUN, *arguments, address=appliance.address)
    wait_until(
        lambda: "train step 3 " in run.text(), seconds=400, what="three steps", seen=run.text
    )
    return run, newest_job(appliance, "execute")["meta"]["name"]


def pods(appliance: Appliance, job: str, role: str) -> list[psutil.Process]:
    """Return the pod processes of one role; a pod's own children are not among them."""
    needle = f"{job}-{role}-"
    return [
        process
        for process in appliance.processes()
        if any(needle in word for word in command_of(process))
    ]


@contextlib.contextmanager
def interrupted(appliance: Appliance, run: ClientRun, job: str) -> Iterator[None]:
    """Interrupt a client as its user does, wait until its job is cancelled, and see it end."""
    polls = itertools.count()

    def is_cancelled() -> bool:
        # Python only prints an interrupt that lands in a callback; users then press the keys again.
        if next(polls) % 60 == 0:
            run.process.send_signal(signal.SIGINT)
        return phase(appliance, job) == "CANCELLED"

    try:
        wait_until(is_cancelled, seconds=300, what="CANCELLED", seen=run.text)
        yield
    finally:
        # An interrupt that lands while gRPC's own lock is given back leaves it held in the client,
        # whose exit then waits for ever, whatever a server does.
        run.process.kill()
        run.wait()


def test_interrupting_the_client_cancels_the_job(appliance: Appliance, tmp_path: Path) -> None:
    run, job = start_training(appliance, tmp_path)
    with interrupted(appliance, run, job):
        assert_no_pod_is_left(appliance)
        wait_until(
            lambda: "KeyboardInterrupt" in run.text(), seconds=300, what="the end", seen=run.text
        )


def test_an_exception_of_the_dataloader_reaches_the_user(
    appliance: Appliance, tmp_path: Path
) -> None:
    run = start_client(
        tmp_path,
        *("--model", "mlp_sgd", "--steps", "10", "--loader", "failing", "--fail-after", "3"),
        address=appliance.address,
    )
    assert run.wait() != 0
    text = run.text()
    assert "Traceback" in text
    assert "data.py" in text
    assert "sample file is damaged" in text
    job = newest_job(appliance, "execute")
    assert job["status"]["phase"] == "FAILED"
    assert_no_pod_is_left(appliance)
    shown = appliance.csctl("get", "job", job["meta"]["name"])
    assert re.search(r"-worker-0 +\S+ +1 .*sample file is damaged", shown)


@pytest.mark.parametrize("role", ROLES)
def test_killing_a_pod_fails_the_job_with_its_name(
    role: str, appliance: Appliance, tmp_path: Path
) -> None:
    run, job = start_training(appliance, tmp_path)
    victim = pods(appliance, job, role)[0]
    os.kill(victim.pid, signal.SIGKILL)
    wait_until(lambda: phase(appliance, job) == "FAILED", seconds=120, what="FAILED")
    story = appliance.csctl("get", "job", job, "-o", "yaml")
    assert f"{job}-{role}-0" in story
    assert "signal 9" in story
    assert run.wait() != 0
    last = run.text().rstrip()[run.text().rindex("Error: ") :]  # what Python prints at the end
    assert f"{job}-{role}-0" in last
    assert "signal 9" in last
    assert_no_pod_is_left(appliance)


def test_a_run_goes_on_with_the_same_losses_after_every_pod_was_stopped(
    appliance: Appliance, tmp_path: Path
) -> None:
    arguments = ("--model", "mlp_sgd", "--steps", "40", "--num-csx", "2")
    slow = ("--loader", "slow", "--seconds-per-batch", "0.5")
    run = start_client(tmp_path / "stopped", *arguments, *slow, address=appliance.address)
    wait_until(lambda: "train step 3 " in run.text(), seconds=400, what="steps", seen=run.text)
    job = newest_job(appliance, "execute")["meta"]["name"]
    stopped_until_said(appliance, job, ROLES[1:], said="Silent pod", by="coordinator-0")
    stopped_until_said(appliance, job, ROLES[:1], said="Heartbeat failed", by="chief-0", times=2)
    plain = start_client(tmp_path / "plain", *arguments, address=appliance.address)
    assert losses(run.result()) == losses(plain.result())


def stopped_until_said(
    appliance: Appliance, job: str, roles: list[str], *, said: str, by: str, times: int = 1
) -> None:
    """Stop the pods of some roles until another pod's log says something so often."""
    log = appliance.data_dir / "jobs" / job / "logs" / f"{by}.log"
    before = log.read_text().count(said)
    victims = [process for role in roles for process in pods(appliance, job, role)]
    assert len(victims) >= len(roles)
    for victim in victims:
        victim.suspend()
    wait_until(lambda: log.read_text().count(said) >= before + times, seconds=120, what=said)
    for victim in victims:
        victim.resume()


def test_more_systems_than_exist_fail_at_once_with_both_numbers(
    appliance: Appliance, tmp_path: Path
) -> None:
    run = start_client(
        tmp_path,
        *("--model", "mlp_sgd", "--batch-size", "16", "--num-csx", "7"),
        address=appliance.address,
    )
    assert run.wait() != 0
    message = next(line for line in run.text().splitlines() if "7" in line and "3" in line)
    assert "system" in message
    assert_no_pod_is_left(appliance)


def test_two_jobs_run_side_by_side_and_the_third_waits(
    appliance: Appliance, tmp_path: Path
) -> None:
    first, first_job = start_training(appliance, tmp_path / "first", "--num-csx", "1")
    second, second_job = start_training(appliance, tmp_path / "second", "--num-csx", "2")
    third = start_client(
        tmp_path / "third",
        *("--model", "mlp_sgd", "--steps", "3", "--num-csx", "1", "--job-label", "turn=third"),
        address=appliance.address,
    )

    def third_phase() -> str:
        found = appliance.jobs("-l", "turn=third")
        return next((j["status"]["phase"] for j in found if j["spec"]["type"] == "execute"), "")

    wait_until(lambda: third_phase() == "QUEUED", seconds=400, what="a queue", seen=third.text)
    assert {phase(appliance, job) for job in (first_job, second_job)} == {"RUNNING"}
    with interrupted(appliance, first, first_job):
        third.result()
    assert third_phase() == "SUCCEEDED"
    with interrupted(appliance, second, second_job):
        assert_no_pod_is_left(appliance)


def assert_no_pod_is_left(appliance: Appliance) -> None:
    def left() -> list[str]:
        commands = [" ".join(command_of(process)) for process in appliance.processes()]
        return [command for command in commands if "wsjob-" in command]

    wait_until(lambda: left() == [], seconds=120, what="all pods to end", seen=lambda: str(left()))
