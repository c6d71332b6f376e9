"""Programs forked from an interpreter with their imports, whose input and output are pipes."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Self

from tests.support.forked import ForkedProcess, ForkServer


class PipedProgram:
    """One program, with the part of `subprocess.Popen` that a benchmark needs of its parties.

    Attributes:
        pid: Its process id.
        stdin: What it reads, as text by lines.
        stdout: What it writes.

    Args:
        process: It.
        stdin: See above.
        stdout: See above.
    """

    def __init__(self, process: ForkedProcess, stdin: IO[str], stdout: IO[str]) -> None:
        self._process = process
        self.pid, self.stdin, self.stdout = process.pid, stdin, stdout

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for end in (self.stdin, self.stdout):
            end.close()
        self.wait()

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code once it has ended."""
        return self._process.wait(timeout)

    def kill(self) -> None:
        """Kill it."""
        self._process.kill()


def start_piped(
    server: ForkServer,
    arguments: Sequence[str],
    *,
    environment: Mapping[str, str],
    cwd: Path,
    errors: int,
) -> PipedProgram:
    """Start a program.

    Args:
        server: Of its interpreter.
        arguments: `-m` and a module, or a script; then the program's own.
        environment: All its variables.
        cwd: Its directory.
        errors: Descriptor of its standard error.
    """
    read_end, standard_input = os.pipe()
    output, write_end = os.pipe()
    process = server.inherit(
        arguments,
        environment=environment,
        cwd=cwd,
        output=write_end,
        errors=errors,
        standard_input=read_end,
    )
    for end in (read_end, write_end):
        os.close(end)
    return PipedProgram(process, os.fdopen(standard_input, "w", buffering=1), os.fdopen(output))
