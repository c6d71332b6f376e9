"""The programs that the command line starts: management, and those of the pods.

`appliance` has one `Program`, the default. Another one is handed over as the object of the command
line's context, by a program that builds its own command line from the same parts.
"""

import sys
from dataclasses import dataclass, field

import typer

from appliance.cluster.process_launcher import PodPrograms


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program that has the commands of `appliance`.

    Attributes:
        command: How it is started again, as the management of `up`.
        pods: What pods run.
    """

    command: tuple[str, ...] = (sys.executable, "-m", "appliance")
    pods: PodPrograms = field(default_factory=PodPrograms)


def program_of(context: typer.Context) -> Program:
    """Return which program a command belongs to."""
    return context.find_object(Program) or Program()
