"""Runs programs of the public SDK client in the client's own environment."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from tests.support.client import ClientRun

PROGRAMS = Path(__file__).parents[1] / "conformance" / "sdk_client"

OWN_EXAMPLES = sorted(PROGRAMS.glob("programs/*/commands_wse[23].sh"))
"""Command files of examples like the simplest public ones: vectors of memory, 16-bit numbers."""


def sdk_client_venv() -> Path:
    """Return the client's environment; `WSC_SDK_CLIENT_VENV` says where it is."""
    default = Path.home() / ".cache" / "wsc" / "sdk-client-2.10.0"
    venv = Path(os.environ.get("WSC_SDK_CLIENT_VENV") or default)
    assert (venv / "bin" / "python").exists(), f"no SDK client in {venv}; run `make sdk-client`"
    return venv


def start_sdk_client(
    program: str, work_dir: Path, config: Path, *arguments: str, token: str = ""
) -> ClientRun:
    """Start one of our programs, or a script by its absolute path.

    Args:
        program: Its name below `PROGRAMS`, or a path.
        work_dir: Its working directory; made if missing.
        config: A config_v2 that names the cluster.
        arguments: Its arguments.
        token: Shown with every call; empty for none.
    """
    work_dir.mkdir(parents=True, exist_ok=True)
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTHON")
    }
    environment |= {"CSCONFIG_PATH": str(config), "OMP_NUM_THREADS": "2"}
    environment.pop("CSAUTH_TOKEN", None)
    if token:
        environment["CSAUTH_TOKEN"] = token
    out, log = work_dir / "result.json", work_dir / "client.log"
    with log.open("w") as stream:
        process = subprocess.Popen(
            [str(sdk_client_venv() / "bin" / "python"), str(PROGRAMS / program), *arguments],
            cwd=work_dir,
            env=environment,
            stdout=stream,
            stderr=subprocess.STDOUT,
            text=True,
        )
    return ClientRun(process, out, log)


def artifact_in(work_dir: Path) -> Path:
    """Return the only compiled program that a client has downloaded."""
    (artifact,) = work_dir.glob("cs_*.tar.gz")
    return artifact


def result_of(run: ClientRun) -> dict[str, Any]:
    """Wait for a good end and return what the program has written into its log as its last line."""
    status = run.wait()
    assert status == 0, f"the client ended with {status}:\n{run.text()[-6000:]}"
    found: dict[str, Any] = json.loads(run.text().strip().split("\n")[-1])
    return found
