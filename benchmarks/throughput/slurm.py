"""A Slurm cluster on loopback, for comparison: munged, slurmctld and slurmd, all for this run."""

import grp
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue")
_SUBMITTERS = 8
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
    """

    environment: dict[str, str]
    directory: Path

    def run_jobs(self, count: int) -> float:
        """Return jobs per second of `sbatch --wrap true`, from submission to the last one's end."""
        script = (
            f"seq {count} | xargs -P {_SUBMITTERS} -I{{}} "
            "sbatch --quiet --output=/dev/null --wrap true"
        )
        start = time.perf_counter()
        subprocess.run(
            ["bash", "-c", script],
            env=self.environment,
            cwd=self.directory,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        while self._run("squeue", "--noheader").strip():
            time.sleep(0.05)  # noqa: TID251 - real processes take real time
        return count / (time.perf_counter() - start)

    def _run(self, *command: str) -> str:
        finished = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, check=True
        )
        return finished.stdout


@contextmanager
def running_slurm() -> Iterator[Slurm]:
    """Start a cluster of one node with this machine's cores, and end it."""
    directory = Path(tempfile.mkdtemp(prefix="wsc-slurm"))
    directory.chmod(0o755)
    daemons: list[subprocess.Popen[bytes]] = []
    try:
        munge = _start_munge(directory, daemons)
        config = _write_config(directory, munge)
        environment = os.environ | {"SLURM_CONF": str(config)}
        for program in ("slurmctld", "slurmd"):
            with (directory / f"{program}.out").open("wb") as log:
                command = [program, "-D", *(["-N", "localhost"] if program == "slurmd" else [])]
                daemons.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
        slurm = Slurm(environment=environment, directory=directory)
        _wait_ready(slurm)
        yield slurm
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
        for daemon in daemons:
            daemon.wait(timeout=30)
        shutil.rmtree(directory, ignore_errors=True)


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
    daemons.append(subprocess.Popen(command, user=user, group=group))
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
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0
MaxJobCount=200000
MinJobAge=2
ReturnToService=2
NodeName=localhost CPUs={len(os.sched_getaffinity(0))} RealMemory=1024 State=UNKNOWN
PartitionName=all Nodes=localhost Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:64
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
