"""`appliance`, with a management that is forked from the process of `up`.

Management imports for three seconds of a core, and the tests start a hundred. Here `up` runs in an
interpreter that has imported all of it, and forks what it would start. A management that begins
anew does so as a process of its own: `python -m tests.support.forked_appliance serve ...`.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from appliance.cli.programs_to_run import Program
from appliance.files.private import keep_private
from appliance.start import Commands, app
from appliance.user_code.user_fork_server import show_variables
from tests.support.forked import fork_server
from tests.support.forking_interpreter import become
from tests.support.pod_programs import ForkedPodPrograms

NAME = "tests.support.forked_appliance"
ROOT = Path(__file__).parents[2]
PRELOADED = (
    *("grpc", "appliance.cli.serving", "appliance.cli.up", "appliance.cli.status", NAME),
    "csctl.command_line.running",
)
_CONFIG = "CSCONFIG_PATH"
"""Variable by which `Appliance` finds its processes."""
SETTLED = {**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}".rstrip(":")}


@dataclass(frozen=True)
class Forked:
    """A process that was forked.

    Attributes:
        pid: Its process id.
    """

    pid: int

    def wait(self) -> int:
        """Return its exit code once it has ended."""
        _, status = os.waitpid(self.pid, 0)
        return os.waitstatus_to_exitcode(status)


@dataclass(frozen=True, kw_only=True)
class ForkedProgram(Program):
    """A program whose management is forked from who starts it."""

    def start(
        self,
        words: Sequence[str],
        *,
        descriptors: Collection[int],
        log: IO[bytes],
        environment: Mapping[str, str],
    ) -> Forked:
        """Fork it; see `Program.start`."""
        if (pid := os.fork()) == 0:
            command = [*self.command, *words]
            sys.orig_argv = command
            if _CONFIG in environment:
                show_variables({_CONFIG: environment[_CONFIG]})
            become(
                command[1:],
                environment=environment,
                cwd="/",
                output=log.fileno(),
                errors=log.fileno(),
                descriptors=descriptors,
            )
        return Forked(pid)


def run_forked(
    words: Sequence[str], *, environment: Mapping[str, str], timeout: float
) -> subprocess.CompletedProcess[str]:
    """Run a program in a process that has imported management and csctl.

    Args:
        words: `-m`, a module of this repository and its arguments.
        environment: All its variables.
        timeout: Seconds after which it is killed and `subprocess.TimeoutExpired` raised.
    """
    server = fork_server(Path(sys.executable), PRELOADED, SETTLED)
    with tempfile.TemporaryDirectory(prefix="wsc-command-") as folder:
        output, errors = Path(folder, "output"), Path(folder, "errors")
        process = server.start(
            words, environment=environment, cwd=ROOT, output=output, errors=errors
        )
        try:
            code = process.wait(timeout)
        except BaseException:
            process.kill()
            raise
        return subprocess.CompletedProcess(
            words, code, stdout=output.read_text(), stderr=errors.read_text()
        )


def main() -> None:
    """Run the command line."""
    keep_private()
    Commands.is_whole_process = True
    program = ForkedProgram(command=(sys.executable, "-m", NAME), pods=ForkedPodPrograms())
    app(prog_name="appliance", obj=program)


if __name__ == "__main__":
    main()
