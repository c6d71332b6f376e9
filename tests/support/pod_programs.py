"""Programs of pods, forked from one interpreter of this process that has their imports."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from appliance.cluster.pod_process import ENTRY_MODULES, SDK_MODULE
from tests.support.forked import ForkedProcess, fork_server

ROOT = Path(__file__).parents[2]
_IMPORTED = (
    "workers.csx",
    "torch",
    "numpy",
    "grpc",
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
    settled = {**os.environ, "PYTHONPATH": str(ROOT)}
    server = fork_server(Path(sys.executable), _IMPORTED, settled)
    return server.start(
        arguments, environment={**settled, **(environment or {})}, cwd=cwd, output=output
    )
