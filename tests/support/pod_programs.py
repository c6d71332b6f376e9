"""Programs of pods, forked from one interpreter that has their imports."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from appliance.cluster.pod_process import ENTRY_MODULES, SDK_MODULE
from appliance.cluster.process_launcher import PodPrograms
from tests.support.forked import ForkedProcess, ForkServer, fork_server

ROOT = Path(__file__).parents[2]
_IMPORTED = (
    "workers.csx",
    "torch",
    "numpy",
    "grpc",
    "appliance.cluster.pod_fork_server",
    *sorted({*ENTRY_MODULES.values()}),
    SDK_MODULE,
)
"""What pods import; the first one says how PyTorch's threads wait."""


def start_program(
    arguments: Sequence[str],
    *,
    cwd: Path = ROOT,
    output: Path,
    environment: Mapping[str, str] | None = None,
) -> ForkedProcess:
    """Start the program of a pod.

    Args:
        arguments: `-m` and a module; then its own.
        cwd: Its directory.
        output: File that takes its standard output and error.
        environment: Variables beside this process's own.
    """
    variables = {**_variables(), **(environment or {})}
    return interpreter().start(arguments, environment=variables, cwd=cwd, output=output)


def start_program_there(
    enter: Sequence[str],
) -> Callable[..., "subprocess.Popen[bytes]"]:
    """Return what does as `start_program`, but by a command that comes first, as `nsenter` does."""

    def start(
        arguments: Sequence[str], *, cwd: str, output: Path, environment: Mapping[str, str]
    ) -> "subprocess.Popen[bytes]":
        command = [*enter, "env", f"--chdir={cwd}", sys.executable, *arguments]
        with output.open("wb") as log:
            return subprocess.Popen(
                command,
                env={**_variables(), **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    return start


def interpreter() -> ForkServer:
    """Return what has imported the programs of pods."""
    return fork_server(Path(sys.executable), _IMPORTED, _variables())


def _variables() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkedPodPrograms(PodPrograms):
    """Programs of pods whose fork server is forked from an interpreter that has imported them."""

    def start_fork_server(
        self, arguments: Sequence[str], *, descriptor: int, log: IO[bytes]
    ) -> ForkedProcess:
        """Start it; see `PodPrograms.start_fork_server`."""
        return interpreter().inherit(
            ("-m", "tests.support.shown_fork_server", *arguments),
            environment=os.environ,
            cwd=Path(os.getcwd()),
            output=log.fileno(),
            errors=log.fileno(),
            descriptors=[descriptor],
        )
