"""A Slurm cluster on loopback, for comparison: munged, slurmctld and slurmd, all for this run.

It is set up for many short jobs, as Slurm's "High Throughput Computing Administration Guide" says:
no accounting, no memory counted (else each job gets all of the node's, and they run one by one), no
limit of any kind, little log, the cheapest way of tracking processes, the oldest job first, jobs
looked at as soon as they come. The node says that it has more processors than it has, so that jobs
need not wait for each other's start and end.

What cannot be had is a Slurm that starts nothing: every job is a slurmstepd, a shell and `true`.
"""

import grp
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

_SBATCH = ("sbatch", "--quiet", "--output=/dev/null", "--wrap", "true")
_PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue")
_SUBMITTERS = 8
_NUM_CPUS = 256
"""Jobs at a time. A job that does not fit when it comes waits for slurmctld's next round, a second
later: on two cores, 16 gives 15 jobs a second, 64 some 30, and 256 some 50."""

_LOOK_SECONDS = 0.25
_READY_SECONDS = 30.0


def find_slurm() -> str | None:
    """Return why Slurm cannot be run here; None if it can."""
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    if missing:
        return f"{', '.join(missing)} not found (apt-get install slurm-wlm)"
    if os.getuid() != 0:
        return "its daemons need root"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Slurm:
    """A running Slurm.

    Attributes:
        environment: Of its commands.
        directory: Where jobs run and leave their output.
        control_pid: Process id of slurmctld, which does for Slurm what management does here.
    """

    environment: dict[str, str]
    directory: Path
    control_pid: int

    def run_jobs(self, count: int) -> float:
        """Return jobs per second of `sbatch --wrap true`, from submission to the last one's end."""
        one = " ".join(_SBATCH)
        return self._run_all(count, f"seq {count} | xargs -P {_SUBMITTERS} -I{{}} {one}")

    def run_array(self, count: int) -> float:
        """Do the same with one `sbatch` for all: without their submission, as one array."""
        return self._run_all(count, " ".join((*_SBATCH, f"--array=1-{count}")))

    def control_cpu_seconds(self) -> float:
        """Return the processor time that slurmctld has used, of the user and of the system."""
        times = psutil.Process(self.control_pid).cpu_times()
        return float(times.user + times.system)

    def _run_all(self, count: int, script: str) -> float:
        start = time.perf_counter()
        subprocess.run(
            ["bash", "-c", script],
            env=self.environment,
            cwd=self.directory,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        while self._run("squeue", "--noheader").strip():
            time.sleep(_LOOK_SECONDS)  # noqa: TID251 - real processes take real time
        return count / (time.perf_counter() - start)

    def _run(self, *command: str) -> str:
        finished = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, check=True
        )
        return finished.stdout


@contextmanager
def running_slurm() -> Iterator[Slurm]:
    """Start a cluster of one node and end it."""
    directory = Path(tempfile.mkdtemp(prefix="wsc-slurm"))
    directory.chmod(0o755)
    daemons: list[subprocess.Popen[bytes]] = []
    try:
        munge = _start_munge(directory, daemons)
        config = _write_config(directory, munge)
        environment = os.environ | {"SLURM_CONF": str(config)}
        for program in ("slurmctld", "slurmd"):
            command = [program, "-D", *(["-N", "localhost"] if program == "slurmd" else [])]
            daemons.append(_start(directory / f"{program}.out", command, env=environment))
        slurm = Slurm(environment=environment, directory=directory, control_pid=daemons[-2].pid)
        _wait_ready(slurm)
        yield slurm
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
        for daemon in daemons:
            daemon.wait(timeout=30)
        shutil.rmtree(directory, ignore_errors=True)


# `Any`: further arguments of `Popen`.
def _start(log: Path, command: Sequence[str], **options: Any) -> "subprocess.Popen[bytes]":  # noqa: ANN401
    with log.open("wb") as file:
        return subprocess.Popen(command, stdout=file, stderr=file, **options)


def _start_munge(directory: Path, daemons: list["subprocess.Popen[bytes]"]) -> Path:
    home = directory / "munge"
    home.mkdir(mode=0o755)
    key = home / "key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    user, group = pwd.getpwnam("munge").pw_uid, grp.getgrnam("munge").gr_gid
    for path in (home, key):
        os.chown(path, user, group)
    names = {"socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
    files = [f"--{option}={home / name}" for option, name in names.items()]
    command = ["munged", "--foreground", f"--key-file={key}", *files]
    # Each program of Slurm begins by asking whether munged lets root read what is for others, as it
    # must not; munged says "Unauthorized credential" then, which is as it should be.
    daemons.append(_start(directory / "munged.out", command, user=user, group=group))
    return home / "socket"


def _write_config(directory: Path, munge: Path) -> Path:
    ports = [_free_port(), _free_port()]
    for name in ("state", "spool"):
        (directory / name).mkdir()
    config = directory / "slurm.conf"
    config.write_text(
        f"""ClusterName=bench
SlurmctldHost=localhost
SlurmUser=root
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthType=auth/munge
AuthInfo=socket={munge}
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
PriorityType=priority/basic
SlurmctldDebug=error
SlurmdDebug=error
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,default_queue_depth=1000
SlurmdParameters=config_overrides
MaxJobCount=200000
MaxArraySize=200000
MinJobAge=2
ReturnToService=2
NodeName=localhost CPUs={_NUM_CPUS} RealMemory=1024 State=UNKNOWN
PartitionName=all Nodes=localhost Default=YES MaxTime=INFINITE State=UP
"""
    )
    return config


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def _wait_ready(slurm: Slurm) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while True:
        state = subprocess.run(
            ["sinfo", "--noheader", "--format=%T"],
            env=slurm.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if state.stdout.strip() in ("idle", "mixed", "allocated"):
            return
        if time.monotonic() > deadline:
            logs = "".join(path.read_text() for path in slurm.directory.glob("*.out"))
            raise SystemExit(f"Slurm did not start: {state.stdout}{state.stderr}\n{logs[-3000:]}")
        time.sleep(0.2)  # noqa: TID251 - real processes take real time
