"""Executes what a page of docs/ tells its reader to type.

In blocks called `console` each line that begins with `$` is a command, and the lines below it are
what it prints: words in their order, whatever the space between them, with `...` for anything.
"""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MARK = "-- command "


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a page, with what it is shown to print."""

    line: str
    shown: tuple[str, ...]


def commands_of(text: str) -> list[Command]:
    """Return the commands of a page's console blocks, in their order."""
    found: list[Command] = []
    for block in _BLOCK.findall(text):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append(Command(line[2:], ()))
            elif line:
                last = found.pop()
                found.append(Command(last.line, (*last.shown, line)))
    return found


def follow(commands: list[Command], home: Path, timeout: float = 300) -> None:
    """Type the commands in one shell, and compare what they print; a failure names the command."""
    script = "\n".join(
        [
            "set -euo pipefail",
            *(f"echo '{_MARK}{i}'\n{each.line}" for i, each in enumerate(commands)),
        ]
    )
    programs = _programs(home)
    environment = {
        "PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(home),
        "PYTHONPATH": str(ROOT),
    }
    answer = subprocess.run(
        ["bash", "-c", script],
        cwd=home,
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    printed = re.split(rf"^{_MARK}\d+\n", answer.stdout, flags=re.MULTILINE)[1:]
    reached = commands[len(printed) - 1]
    assert answer.returncode == 0, f"$ {reached.line}\n{printed[-1]}{answer.stderr}"
    for command, text in zip(commands, printed, strict=True):
        _compare(command, text)


def _programs(home: Path) -> Path:
    """Return a folder with an `appliance` that takes free ports, as others' tests run beside."""
    folder = home / "bin"
    folder.mkdir()
    program = folder / "appliance"
    program.write_text(
        "#!/bin/bash\n"
        'if [ "$1" = up ]; then shift; set -- up --port 0 --rest-port 0 "$@"; fi\n'
        f'exec {sys.executable} -m appliance "$@"\n'
    )
    program.chmod(0o755)
    csctl = folder / "csctl"
    csctl.write_text(f'#!/bin/bash\nexec {sys.executable} -m csctl "$@"\n')
    csctl.chmod(0o755)
    return folder


def _compare(command: Command, printed: str) -> None:
    words = " ".join(" ".join(command.shown).split())
    pattern = re.escape(words).replace(re.escape("..."), ".*?").replace(r"\ ", r"\s+")
    pattern = pattern.replace(r".*?\s+", r".*?\s*")
    assert re.search(pattern, " ".join(printed.split())), (
        f"$ {command.line}\nshown:   {words}\nprinted: {printed}"
    )
