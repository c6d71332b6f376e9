"""Runs the public client's programs in the client's own environment."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.forked import ForkedProcess, directory, fork_server
from tests.support.piped import PipedProgram, start_piped

PROGRAMS = Path(__file__).parents[1] / "conformance" / "client"
PRELOADED = (
    *("torch", "grpc", "cerebras.pytorch", "cerebras.appliance.appliance_client"),
    *("cerebras.appliance.appliance_manager", "torch._dynamo", "boto3"),
)
"""What `import cerebras.pytorch` and a run of it import; labs, pages and examples start anew."""


def client_venv(release: str = "") -> Path:
    """Return the client's environment; `WSC_CLIENT_VENV` says where it is.

    Args:
        release: Return that of this release, which is beside it; empty for the one that is tested.
    """
    default = Path.home() / ".cache" / "wsc" / "client-2.10.0"
    venv = Path(os.environ.get("WSC_CLIENT_VENV") or default)
    if release:
        venv = venv.with_name(f"client-{release}")
    assert (venv / "bin" / "python").exists(), f"no client in {venv}; run `make client releases`"
    return venv


def client_path(venv: Path | None = None) -> str:
    """Return the folders of PATH that hold the tools of a client's environment, ours by default.

    The client lowers every program with `torch-cirh-opt`. The one in the environment's `bin` is a
    script that imports the whole client to find the program of that name (three seconds of a core),
    and the program's own folder comes before it; pages and examples are followed with `bin` alone.
    """
    venv = venv or client_venv()
    lowering = venv / "lib" / "python3.11" / "site-packages" / "cerebras/pytorch/lib"
    return f"{lowering}:{venv}/bin"


def client_environment(venv: Path | None = None) -> dict[str, str]:
    """Return the environment in which the client runs: its tools on PATH, two threads."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTHON")
    }
    environment["PATH"] = f"{client_path(venv)}:{environment['PATH']}"
    environment["OMP_NUM_THREADS"] = "2"
    environment["OMP_WAIT_POLICY"] = "passive"  # several runs share the cores
    return environment


def _pip_answers() -> str:
    """Return the folder of what pip has answered the client in this run of tests."""
    folder = directory() / "pip"
    folder.mkdir(exist_ok=True)
    return str(folder)


def _keeping_answers_of_pip(environment: dict[str, str]) -> dict[str, str]:
    """Return an environment whose programs get what pip has answered before, asked the same."""
    kept = Path(__file__).parent / "kept_pip"
    return {**environment, "PYTHONPATH": str(kept), "KEPT_PIP_ANSWERS": _pip_answers()}


@dataclass
class ClientRun:
    """A client program that was started.

    Attributes:
        process: It.
        out: Where it writes its result.
        log: Where its standard output and error go.
    """

    process: ForkedProcess
    out: Path
    log: Path

    def wait(self, *, timeout_seconds: float = 600) -> int:
        """Wait for the end and return the exit status."""
        return self.process.wait(timeout_seconds)

    def text(self) -> str:
        """Return what it printed so far."""
        return self.log.read_text()

    def result(self, *, timeout_seconds: float = 600) -> dict[str, Any]:
        """Wait for a good end and return the result."""
        status = self.wait(timeout_seconds=timeout_seconds)
        assert status == 0, f"the client ended with {status}:\n{self.text()[-6000:]}"
        result: dict[str, Any] = json.loads(self.out.read_text())
        return result


def start_client(
    work_dir: Path,
    *arguments: str,
    address: str | None = None,
    config: Path | None = None,
    token: str = "",
    program: str = "train.py",
    release: str = "",
) -> ClientRun:
    """Start one of the conformance programs, in a process that has imported the client.

    Args:
        work_dir: Its working directory; made if missing.
        arguments: Its arguments.
        address: Management's host:port; None for the CPU backend or with `config`.
        config: A config_v2 that names the cluster.
        token: Shown with every call; empty for none.
        program: Name of the program, which takes `--backend`, `--mgmt-address` and `--out`.
        release: Release of the client; empty for the one that is tested.
    """
    work_dir.mkdir(parents=True, exist_ok=True)
    venv = client_venv(release)
    environment = client_environment(venv)
    server = fork_server(venv / "bin" / "python", PRELOADED, environment)
    command = [str(PROGRAMS / program), *arguments]
    if address or config:
        command += ["--backend", "CSX"]
    if address:
        command += ["--mgmt-address", address]
        environment["CSCONFIG_PATH"] = str(work_dir / "no-config")
    if config:
        environment["CSCONFIG_PATH"] = str(config)
    environment.pop("CSAUTH_TOKEN", None)
    if token:
        environment["CSAUTH_TOKEN"] = token
    out, log = work_dir / "result.json", work_dir / "client.log"
    process = server.start(
        [*command, "--out", str(out)],
        environment=_keeping_answers_of_pip(environment),
        cwd=work_dir,
        output=log,
    )
    return ClientRun(process, out, log)


def start_piped_client(arguments: Sequence[str], *, work_dir: Path, errors: int) -> PipedProgram:
    """Start a client program that is given the address of its cluster; its output can be read.

    Args:
        arguments: A script, and its arguments.
        work_dir: Its working directory.
        errors: Descriptor of its standard error.
    """
    environment = client_environment()
    server = fork_server(client_venv() / "bin" / "python", PRELOADED, environment)
    environment["CSCONFIG_PATH"] = str(work_dir / "no-config")
    return start_piped(
        server,
        arguments,
        environment=_keeping_answers_of_pip(environment),
        cwd=work_dir,
        errors=errors,
    )


def arrays_of(checkpoint: Path) -> dict[str, np.ndarray]:
    """Read a checkpoint with the client's own loader.

    Returns:
        Tensors and numbers by their path in the checkpoint, joined by dots.
    """
    out = checkpoint.with_suffix(".npz")
    environment = client_environment()
    server = fork_server(client_venv() / "bin" / "python", PRELOADED, environment)
    log = checkpoint.with_suffix(".log")
    command = [str(PROGRAMS / "checkpoint_to_npz.py"), str(checkpoint), str(out)]
    process = server.start(command, environment=environment, cwd=checkpoint.parent, output=log)
    status = process.wait(300)
    assert status == 0, f"reading {checkpoint} ended with {status}:\n{log.read_text()[-6000:]}"
    with np.load(out) as arrays:
        return dict(arrays)


def losses(result: dict[str, Any]) -> list[float]:
    """Return a result's losses, step by step."""
    return [float.fromhex(loss) for loss in result["losses"]]
