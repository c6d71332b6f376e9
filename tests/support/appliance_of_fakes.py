"""`appliance`, as tests start it where pods are to have other programs.

`python -m tests.support.appliance_of_fakes [--forked] [--pod ROLE=MODULE]... COMMAND ...`: the
product's own command line, over a `Program` that the product never makes.
"""

import sys
from collections.abc import Mapping, Sequence

from appliance.cli.programs_to_run import Program
from appliance.cluster.process_launcher import PodPrograms
from appliance.core.ids import Role
from appliance.files.private import keep_private
from appliance.start import Commands, app
from tests.support.forked_appliance import ForkedProgram
from tests.support.pod_programs import ForkedPodPrograms

NAME = "tests.support.appliance_of_fakes"
FORKED = "--forked"
"""Says that `up` forks management instead of starting it."""


def words_of(modules: Mapping[str, str]) -> tuple[str, ...]:
    """Return the arguments that give roles other programs, by role."""
    return tuple(w for role, module in modules.items() for w in ("--pod", f"{role}={module}"))


def split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the arguments of this program, and those of the command line."""
    count = int(words[:1] == [FORKED])
    while words[count : count + 1] == ["--pod"]:
        count += 2
    return list(words[:count]), list(words[count:])


def main() -> None:
    own, others = split(sys.argv[1:])
    is_forked = FORKED in own
    entries = dict(word.split("=", 1) for word in own[1 + is_forked :: 2])
    kind, pods = (ForkedProgram, ForkedPodPrograms) if is_forked else (Program, PodPrograms)
    program = kind(
        command=(sys.executable, "-m", NAME, *own),
        pods=pods(
            entry_modules={Role(role): module for role, module in entries.items()},
            preload=("grpc",),  # fakes compute nothing; a program that does imports what it needs
        ),
    )
    keep_private()
    Commands.is_whole_process = True
    app(args=others, obj=program)


if __name__ == "__main__":
    main()
