"""A running appliance for tests: real processes on free ports, and proof that nothing is left."""

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tests.support import forked_appliance, kept_machine_code
from tests.support.forked_appliance import run_forked
from tests.support.processes import command_of, directory_of, variables_of
from tests.support.start_costs import counted
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
COMMAND_SECONDS = 600
"""Longest command; `csctl attach` follows a whole run."""


@dataclass
class Appliance:
    """An appliance that `appliance up` started.

    Attributes:
        data_dir: Its data directory.
        extra: Further arguments of `appliance up`.
    """

    data_dir: Path
    extra: Sequence[str] = field(default_factory=tuple)

    def up(self, *arguments: str) -> str:
        """Start it and return what it printed."""
        kept_machine_code.link_into(self.data_dir)
        ports = ("--port", "0", "--rest-port", "0")
        with counted("appliances"):
            return self.command("up", *ports, *self.extra, *arguments, program="appliance")

    def down(self) -> str:
        """Stop it and return what it printed."""
        return self.command("down", program="appliance")

    def command(self, *arguments: str, program: str) -> str:
        """Run `appliance` or `csctl` against it and return standard output."""
        finished = self.try_command(*arguments, program=program)
        assert finished.returncode == 0, (
            f"{program} {' '.join(arguments)} ended with {finished.returncode}:\n"
            f"{finished.stdout}{finished.stderr}"
        )
        return finished.stdout

    def try_command(self, *arguments: str, program: str) -> subprocess.CompletedProcess[str]:
        """Run `appliance` or `csctl` against it, whatever becomes of it."""
        environment = os.environ | {"CSCONFIG_PATH": str(self.config_path)}
        words = ("-m", program, *arguments)
        if program == "appliance":
            words = ("-m", forked_appliance.NAME, *arguments, "--data-dir", str(self.data_dir))
        return run_forked(words, environment=environment, timeout=COMMAND_SECONDS)

    def csctl(self, *arguments: str) -> str:
        """Run csctl against it and return standard output."""
        return self.command(*arguments, program="csctl")

    @property
    def config_path(self) -> Path:
        """The config_v2 it wrote."""
        return self.data_dir / "config_v2"

    @property
    def address(self) -> str:
        """host:port of its management service."""
        clusters = json.loads(self.config_path.read_text())["clusters"]
        server: str = clusters[0]["server"]
        return server

    def jobs(self, *filters: str) -> list[dict[str, Any]]:
        """Every job that passes the filters, as csctl sees it, newest first."""
        text = self.csctl("get", "jobs", "-a", "-o", "json", *filters)
        items: list[dict[str, Any]] = json.loads(text)["items"]
        return items

    def processes(self) -> list[psutil.Process]:
        """Return all processes that carry the data directory in their environment or arguments."""
        needle = str(self.data_dir)
        found = []
        for process in psutil.process_iter():
            words = [*command_of(process), *variables_of(process).values(), directory_of(process)]
            if process.pid != os.getpid() and any(needle in word for word in words):
                found.append(process)
        return found

    def shared_memory(self) -> list[str]:
        """Return the names of all POSIX shared memory that its jobs have left."""
        work_dirs = self.data_dir / "jobs"
        jobs = [path.name for path in work_dirs.iterdir()] if work_dirs.exists() else []
        return [name for name in os.listdir("/dev/shm") if any(job in name for job in jobs)]


@contextmanager
def running_appliance(data_dir: Path, *arguments: str) -> Iterator[Appliance]:
    """Start an appliance, hand it out, stop it, and check that nothing of it is left."""
    appliance = Appliance(data_dir)
    appliance.up(*arguments)
    try:
        yield appliance
    finally:
        appliance.down()
    # A client's own helpers, which have its environment, end a moment after the client.
    wait_until(
        lambda: appliance.processes() == [],
        seconds=60,
        what="the end of every process of the appliance",
        seen=lambda: str([command_of(process) for process in appliance.processes()]),
    )
    assert appliance.shared_memory() == []
