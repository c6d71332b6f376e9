"""Pods as real processes: forked, watched, stopped, and nothing left of them."""

import os
import signal
from pathlib import Path

import psutil
import pytest

from appliance.cluster.launcher import JobStopped, LauncherLost, LauncherTaken, PodExit
from appliance.cluster.process_launcher import PodPrograms, ProcessLauncher, ProcessOptions
from appliance.core.errors import ClusterError
from appliance.core.ids import JobId, Role, new_job_id
from appliance.core.pods.pod_spec import PodSpec
from tests.support.appliance_process import processes_of, shared_memory_of, wait_for, wait_pods

ROLES = (Role.COORDINATOR, Role.WEIGHT, Role.WORKER)


@pytest.fixture
def launcher(tmp_path, tmp_path_factory):
    runtime_root = Path(f"/tmp/wsc-t{os.getpid()}-{tmp_path.name[-6:]}")
    launcher = ProcessLauncher(
        ProcessOptions(
            runtime_root=runtime_root,
            log_path=tmp_path / "fork-server.log",
            node="here",
            programs=PodPrograms(
                preload=(), entry_modules=dict.fromkeys(Role, "tests.support.idle_pod")
            ),
            orphan_seconds=120.0,
        )
    )
    yield launcher
    launcher.close()
    assert not runtime_root.exists()


def launch(launcher: ProcessLauncher, tmp_path: Path, **behaviours: str) -> tuple[JobId, dict]:
    job = new_job_id()
    work_dir = tmp_path / job
    work_dir.mkdir()
    pods = [
        spec_of(launcher, tmp_path, job, role, behaviours.get(role.value, "wait")) for role in ROLES
    ]
    pids = launcher.launch(pods)
    return job, {role: pids[spec.name] for role, spec in zip(ROLES, pods, strict=True)}


def spec_of(launcher, tmp_path, job, role, behaviour="wait") -> PodSpec:
    (tmp_path / job / f"{role.value}.behaviour").write_text(behaviour)
    return PodSpec(
        job=job,
        role=role,
        index=0,
        runtime_dir=launcher.runtime_dir(job),
        work_dir=tmp_path / job,
        management_address="",
    )


def wait_ready(launcher: ProcessLauncher, job: JobId, *roles: Role) -> None:
    for role in roles or ROLES:
        path = launcher.runtime_dir(job) / f"{role.value}-0.ready"
        wait_for(path.exists, what=f"{path} exists")


def next_exit(launcher: ProcessLauncher, kind: type, *, role: Role | None = None):
    while True:
        found = launcher.exits.get(timeout=120)
        if isinstance(found, kind) and (role is None or found.role is role):
            return found


def stop(launcher: ProcessLauncher, job: JobId) -> None:
    launcher.stop(job)
    assert next_exit(launcher, JobStopped).job == job


def test_a_job_is_launched_and_stopped_without_a_trace(launcher, tmp_path):
    job, pids = launch(launcher, tmp_path)
    wait_ready(launcher, job)
    assert all(psutil.pid_exists(pid) for pid in pids.values())
    assert len(shared_memory_of(job)) == len(ROLES)
    log = (tmp_path / job / "logs" / "weight-0.log").read_text()
    assert f"pod {job}-weight-0 runs" in log
    stop(launcher, job)
    assert processes_of(job) == []
    assert not any(psutil.pid_exists(pid) for pid in pids.values())
    assert shared_memory_of(job) == []
    assert not launcher.runtime_dir(job).exists()


def test_what_a_pod_has_started_is_stopped_with_it_even_in_a_session_of_its_own(launcher, tmp_path):
    job, pids = launch(launcher, tmp_path, worker="streamer")
    wait_ready(launcher, job)
    child = int((launcher.runtime_dir(job) / "child").read_text())
    os.kill(pids[Role.WORKER], signal.SIGKILL)  # its child is an orphan now
    next_exit(launcher, PodExit, role=Role.WORKER)
    assert psutil.pid_exists(child)
    stop(launcher, job)
    assert not psutil.pid_exists(child)


def test_a_killed_pod_is_reported_with_its_signal(launcher, tmp_path):
    job, pids = launch(launcher, tmp_path)
    os.kill(pids[Role.WEIGHT], signal.SIGKILL)
    ended = next_exit(launcher, PodExit)
    assert (ended.job, ended.role, ended.exit_code, ended.signal) == (job, Role.WEIGHT, 137, 9)
    assert ended.reason == "exited with code 137 (killed by signal 9)"


def test_exit_codes_and_tracebacks_are_kept(launcher, tmp_path):
    job, _ = launch(launcher, tmp_path, weight="exit", worker="raise")
    ended = {}
    while len(ended) < 2:
        found = next_exit(launcher, PodExit)
        ended[found.role] = found.exit_code
    assert ended == {Role.WEIGHT: 3, Role.WORKER: 1}
    log = (tmp_path / job / "logs" / "worker-0.log").read_text()
    assert "RuntimeError: the test role raises" in log
    assert "of its fork server" not in log


def test_stopping_a_job_that_never_ran_is_confirmed_too(launcher):
    stop(launcher, new_job_id())


def test_pods_die_with_the_fork_server_and_a_new_one_takes_over(launcher, tmp_path):
    job, pids = launch(launcher, tmp_path, worker="streamer")
    wait_ready(launcher, job)
    child = int((launcher.runtime_dir(job) / "child").read_text())
    (server,) = {psutil.Process(pid).ppid() for pid in pids.values()}
    os.kill(server, signal.SIGKILL)
    lost = next_exit(launcher, LauncherLost)
    assert lost.jobs == (job,)
    wait_for(lambda: not any(map(psutil.pid_exists, [*pids.values(), child])))
    assert shared_memory_of(job) == []
    again, _ = launch(launcher, tmp_path)
    wait_ready(launcher, again)
    stop(launcher, again)


def test_pods_outlive_their_launcher_and_the_next_one_is_told_what_happened(launcher, tmp_path):
    job, pids = launch(launcher, tmp_path)
    gone, _ = launch(launcher, tmp_path)
    wait_ready(launcher, job)
    wait_ready(launcher, gone)
    launcher.stop(gone)
    assert launcher.exits.get(timeout=120).job == gone
    launcher.abandon()
    os.kill(pids[Role.WORKER], signal.SIGKILL)
    wait_pods(job, 2)
    wait_for(lambda: not launcher.runtime_dir(gone).exists())  # it is stopped, and that is told
    successor = ProcessLauncher(launcher._options)
    try:
        survivors = successor.survivors()
        assert set(survivors) == {job, gone}
        assert sorted(survivors[job].pids.values()) == sorted(pids.values())
        (ended,) = survivors[job].exits
        assert (ended.role, ended.signal) == (Role.WORKER, signal.SIGKILL)
        assert not survivors[job].is_stopped
        specs = [spec_of(successor, tmp_path, job, role) for role in ROLES]
        assert sorted(successor.launch(specs).values()) == sorted(pids.values())
        successor.stop(job)
        ends = [successor.exits.get(timeout=120) for _ in range(3)]
        assert JobStopped(job=job) in ends
        for name in (job, gone):
            successor.forget(name)
    finally:
        successor.close()


def test_a_launcher_whose_fork_server_another_takes_is_told_so(launcher, tmp_path):
    job, _ = launch(launcher, tmp_path)
    wait_ready(launcher, job)
    successor = ProcessLauncher(launcher._options)
    try:
        assert launcher.exits.get(timeout=120) == LauncherTaken()
        assert set(successor.survivors()) == {job}
    finally:
        successor.close()


def test_a_runtime_directory_with_a_long_path_is_refused(tmp_path):
    with pytest.raises(ClusterError, match="more than 40 bytes"):
        ProcessOptions(
            runtime_root=Path("/" + "x" * 60),
            log_path=tmp_path / "l",
            node="n",
            programs=PodPrograms(),
            orphan_seconds=1.0,
        )
