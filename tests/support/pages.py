"""The blocks of the pages, and a shell that types what they tell their reader to type.

In blocks called `console` each line that begins with `$` (or `#`, as root) is a command, which a
backslash continues, and the lines below it are what it prints: words in their order, whatever the
space between them, with `...` for anything and decimal fractions for others. An id of a job, a
workflow or an array stands for the one that is printed, from then on. Below `^C` is what is printed
after an interrupt. `make` says what it would do, and fails if there is no such target.

Tests take blocks with literal names, `block_of("docs/ci.md", "name: train")` and
`blocks_of("docs/operations.md", "console")`, because tests/architecture looks for these calls to
know which blocks are executed.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support import forked_appliance
from tests.support.forked_command import write

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_ID = re.compile(r"\b(wsjob|wflow|array)-[a-z0-9]{22}\b")
_MARK = "-- ended with "


@dataclass(frozen=True, slots=True)
class Block:
    """What a page has between two fences.

    Attributes:
        page: The page, from the root of the tree.
        language: What is written beside the opening fence.
        text: All lines.
    """

    page: str
    language: str
    text: str

    @property
    def first_line(self) -> str:
        """The line by which a test names it."""
        return self.text.partition("\n")[0]


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a page, with what it is shown to print."""

    line: str
    shown: tuple[str, ...] = ()


def all_blocks(page: str) -> list[Block]:
    """Return every block of a page."""
    text = (ROOT / page).read_text()
    return [Block(page, language, body) for _, language, body in _FENCE.findall(text)]


def blocks_of(page: str, language: str) -> list[Block]:
    """Return the blocks of one language."""
    found = [block for block in all_blocks(page) if block.language == language]
    assert found, f"{page} has no block called {language}"
    return found


def block_of(page: str, start: str) -> Block:
    """Return the only block whose first line begins so."""
    (found,) = [block for block in all_blocks(page) if block.first_line.startswith(start)]
    return found


def commands_of(*blocks: Block) -> list[Command]:
    """Return the commands of console blocks, in their order."""
    found: list[Command] = []
    for block in blocks:
        for line in block.text.replace("\\\n", "").splitlines():
            if line.startswith(("$ ", "# ")):
                found.append(Command(line[2:]))
            elif line:
                last = found.pop()
                found.append(Command(last.line, (*last.shown, line)))
    return found


class Terminal:
    """A shell in a home of its own.

    Args:
        home: The directory.
        variables: Further variables of the shell.
        replaced: What in the commands is written otherwise here, and how; all of it must occur.
        first_on_path: Folder of programs that come before those of the appliance's environment.
        prefix: What comes before the shell.
        seconds: Longest command.
        are_forked: Whether `appliance` and `csctl` are forked from an interpreter that has their
            imports, as this process's user; else each is a program by itself.
    """

    def __init__(
        self,
        home: Path,
        *,
        variables: Mapping[str, str] | None = None,
        replaced: Mapping[str, str] | None = None,
        first_on_path: Path | None = None,
        prefix: Sequence[str] = (),
        seconds: float = 300,
        are_forked: bool = True,
    ) -> None:
        self._home, self._seconds = home, seconds
        self._replaced, self._unused = dict(replaced or {}), set(replaced or {})
        self._ids: dict[str, str] = {}
        self._prefix = prefix
        programs = _programs(home, are_forked=are_forked and not prefix)
        folders = [programs, first_on_path, Path(sys.executable).parent, os.environ["PATH"]]
        path = ":".join(str(folder) for folder in folders if folder is not None)
        self._environment = {"PATH": path, "HOME": str(home), **(variables or {})}
        self._shell = self._open()

    def follow(self, commands: list[Command]) -> None:
        """Type the commands and compare what they print; a failure names the command."""
        for command in commands:
            line = self._here(command.line)
            print(f"$ {line}", flush=True)
            if line.partition(" ")[0] == "exit":
                self.close()
                self._shell = self._open()
            elif "^C" in command.shown:
                self._compare(command, self._interrupted(command, line))
            else:
                printed, status = self._type(line)
                print(printed, flush=True)
                assert status == "0", f"$ {line}\n{printed}ended with {status}"
                self._compare(command, printed)
        assert self._unused == set(), f"these do not occur: {sorted(self._unused)}"

    def close(self) -> None:
        """End the shell, not what it has started."""
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        self._shell.stdin.close()
        self._shell.wait(60)
        self._shell.stdout.close()

    def _open(self) -> "subprocess.Popen[str]":
        shell = subprocess.Popen(
            [*self._prefix, "bash", "--noprofile", "--norc"],
            cwd=self._home,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert shell.stdin is not None
        shell.stdin.write("set -uo pipefail; cd\n")
        return shell

    def _here(self, line: str) -> str:
        """Return a command of a page as it is typed here."""
        for text, instead in self._replaced.items():
            if text in line:
                self._unused.discard(text)
                line = line.replace(text, instead)
        return _ID.sub(lambda found: self._ids.get(found[0], found[0]), line)

    def _type(self, line: str) -> tuple[str, str]:
        """Return what a command prints, and its exit code."""
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        self._shell.stdin.write(f"{{ {line}\n}} </dev/null; printf '\\n{_MARK}%s\\n' $?\n")
        self._shell.stdin.flush()
        printed = ""
        with self._deadline(self._shell):
            for text in self._shell.stdout:
                if text.startswith(_MARK):
                    return printed[:-1], text[len(_MARK) :].strip()
                printed += text
        raise AssertionError(f"$ {line}\n{printed}\nthe shell ended, or {self._seconds} s passed")

    def _interrupted(self, command: Command, line: str) -> str:
        """Return what a command prints that is interrupted once it has printed what is above ^C."""
        awaited = command.shown[: command.shown.index("^C")]
        process = subprocess.Popen(
            [*self._prefix, "bash", "-c", f"exec {line}"],
            cwd=self._home,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdout is not None
        printed = ""
        with self._deadline(process):
            for text in process.stdout:
                printed += text
                if self._pattern(awaited).search(" ".join(printed.split())):
                    break
            process.send_signal(signal.SIGINT)
            printed += process.stdout.read()
        process.stdout.close()
        process.wait(60)
        return printed

    @contextmanager
    def _deadline(self, process: "subprocess.Popen[str]") -> Iterator[None]:
        timer = threading.Timer(self._seconds, process.kill)
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _compare(self, command: Command, printed: str) -> None:
        # What was interrupted may have gone on until it was.
        shown = tuple("..." if line == "^C" else line for line in command.shown)
        found = self._pattern(shown).search(" ".join(printed.split()))
        assert found, f"$ {command.line}\nshown:   {' '.join(shown)}\nprinted: {printed}"
        named = dict.fromkeys(each[0] for each in _ID.finditer(" ".join(shown)))
        self._ids |= dict(
            zip([n for n in named if n not in self._ids], found.groups(), strict=True)
        )

    def _pattern(self, shown: tuple[str, ...]) -> re.Pattern[str]:
        """Return what printed words have to match; new ids are its groups."""
        text, known, pattern, at = " ".join(" ".join(shown).split()), dict(self._ids), "", 0
        for found in _ID.finditer(text):
            pattern += _words(text[at : found.start()])
            if found[0] in known:
                pattern += known[found[0]]
            else:
                group = sum(each.startswith("\\") for each in known.values()) + 1
                known[found[0]] = f"\\{group}"
                pattern += rf"({found[1]}-[a-z0-9]{{22}})"
            at = found.end()
        return re.compile(pattern + _words(text[at:]))


def _words(text: str) -> str:
    pattern = re.escape(text).replace(re.escape("..."), ".*?").replace(r"\ ", r"\s+")
    pattern = re.sub(r"\d+\\\.\d+", r"\\d+\\.\\d+", pattern)
    return pattern.replace(r".*?\s+", r".*?\s*")


def follow(commands: list[Command], home: Path, **options: Any) -> None:
    """Type the commands in one shell in a home of its own; `options` are those of `Terminal`."""
    terminal = Terminal(home, **options)
    try:
        terminal.follow(commands)
    finally:
        terminal.close()


_MAKE = '[ "$1" = -C ] || cd {root}\nPATH=${{PATH#*:}} exec make -n "$@"'
# On free ports, since others' tests run beside.
_UP = 'if [ "$1" = up ]; then shift; set -- up --port 0 --rest-port 0 "$@"; fi\n'


def _programs(home: Path, *, are_forked: bool) -> Path:
    folder = home / "bin"
    folder.mkdir()
    appliance, csctl = "appliance.start", "csctl"
    start = f"exec {sys.executable}"
    if are_forked:
        appliance = forked_appliance.NAME
        python, preloaded = Path(sys.executable), forked_appliance.PRELOADED
        start = write(folder / "interpreter.json", python, preloaded, forked_appliance.SETTLED)
    programs = {
        "appliance": f'{_UP}{start} -m {appliance} "$@"',
        "csctl": f'{start} -m {csctl} "$@"',
        "make": _MAKE.format(root=ROOT),
    }
    for name, text in programs.items():
        program = folder / name
        program.write_text(f"#!/bin/bash\n{text}\n")
        program.chmod(0o755)
    return folder


@contextmanager
def short_home() -> Iterator[Path]:
    """Yield a home with a short name; an appliance that was started in it is stopped."""
    with tempfile.TemporaryDirectory(prefix="p") as directory:
        home = Path(directory)
        yield home
        if (home / ".local" / "share" / "wafer-appliance" / "appliance.json").exists():
            subprocess.run(
                [sys.executable, "-m", "appliance", "down"],
                cwd=ROOT,
                env={**os.environ, "HOME": directory, "XDG_DATA_HOME": ""},
                capture_output=True,
                check=False,
            )
