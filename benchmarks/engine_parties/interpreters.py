"""How programs of the benchmarks start: each by an interpreter of its own, as a user's does.

In a run of the tests, whose figures mean nothing, they are forked from one that has their imports:
what a step of a small model takes is milliseconds, and importing PyTorch takes seconds of a core.
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from benchmarks.engine_parties.until_parent_ends import ending_with_this_process
from tests.support.forked import fork_server, is_shared
from tests.support.piped import PipedProgram, start_piped

_ROOT = Path(__file__).parents[2]
_STANDARD_ERROR = 2
_IMPORTED = (
    *("torch", "torch.distributed.fsdp", "torch._dynamo", "grpc", "pytest"),
    *("benchmarks.engine_parties.client_party", "benchmarks.engine_parties.step_profile"),
    *("benchmarks.programs.capture", "appliance.compiler.pipeline"),
)

Program = subprocess.Popen[str] | PipedProgram


def start_party(command: Sequence[str], environment: Mapping[str, str], errors: IO[str]) -> Program:
    """Start a program that ends with this process, or as its standard input does.

    Args:
        command: An interpreter, a script and its arguments.
        environment: All its variables.
        errors: Takes its standard error.
    """
    if is_shared() and command[0] == sys.executable:
        return _forked(command[1:], environment, errors=errors.fileno())
    return subprocess.Popen(
        ending_with_this_process(command),
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        bufsize=1,
    )


def start_benchmark(words: Sequence[str]) -> Program:
    """Start a benchmark, `-m` with its module and arguments, whose output can be read."""
    command = [sys.executable, *words]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def fork_benchmark(words: Sequence[str]) -> Program:
    """Start a benchmark as a test does; see `start_benchmark`."""
    return _forked(words, os.environ, errors=_STANDARD_ERROR)


def text_of(pipe: IO[str] | None) -> IO[str]:
    """Return the end of a program's pipe."""
    assert pipe is not None
    return pipe


def _forked(words: Sequence[str], environment: Mapping[str, str], *, errors: int) -> PipedProgram:
    settled = {**os.environ, "PYTHONPATH": str(_ROOT)}
    server = fork_server(Path(sys.executable), _IMPORTED, settled)
    return start_piped(server, words, environment=environment, cwd=_ROOT, errors=errors)
