"""The programs that the command line starts: management, and those of the pods.

`appliance` has one `Program`, the default. Another one is handed over as the object of the command
line's context, by a program that builds its own command line from the same parts.
"""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Protocol

import typer

from appliance.cluster.process_launcher import PodPrograms


class Started(Protocol):
    """A process that was started, such as a `subprocess.Popen`."""

    def wait(self) -> int:
        """Return its exit code once it has ended."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program that has the commands of `appliance`.

    Attributes:
        command: How it is started again, as the management of `up`.
        pods: What pods run.
    """

    command: tuple[str, ...] = (sys.executable, "-m", "appliance")
    pods: PodPrograms = field(default_factory=PodPrograms)

    def start(
        self,
        words: Sequence[str],
        *,
        descriptors: Sequence[int],
        log: IO[bytes],
        environment: Mapping[str, str],
    ) -> Started:
        """Start it in the background, in a session of its own.

        Args:
            words: What follows the command.
            descriptors: What it inherits.
            log: Takes its standard output and error.
            environment: All its variables.
        """
        return subprocess.Popen(
            [*self.command, *words],
            pass_fds=descriptors,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd="/",
            env=environment,
        )


def program_of(context: typer.Context) -> Program:
    """Return which program a command belongs to."""
    return context.find_object(Program) or Program()
