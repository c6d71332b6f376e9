"""Every command against a running appliance, as text: what a user types and what csctl prints.

`session.txt` is one long terminal session; what differs from run to run (ids, ages, times, load) is
replaced by words. To change what csctl prints, run with `CSCTL_WRITE_TRANSCRIPTS=1` and read the
difference.
"""

import contextlib
import io
import os
import platform
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from csctl.command_line.app import app
from csctl.command_line.running import main
from csctl.command_line.version import csctl_version
from tests.support.appliance_process import (
    ApplianceProcess,
    running_appliance,
    wait_for,
)

_SESSION = Path(__file__).parent / "session.txt"
_PROMPT = "$ csctl "
_CLUSTER = """
systems:
  - {name: systemf0, block: leaf0}
  - {name: systemf1, block: leaf1}
nodes:
  - {name: node0, roles: [management, activation, broadcastreduce, worker], cores: 8, memory: 64Gi}
"""

_VARIABLE = (
    (re.compile(r"wsjob-[a-z0-9]{22}"), "wsjob"),
    (re.compile(r"wflow-[a-z0-9]{22}"), "wflow"),
    (re.compile(r"export-[0-9a-f]{16}"), "export"),
    (re.compile(r"maintenance-[0-9a-f]{12}"), "maintenance"),
)
_CHANGING = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00| UTC)?"), "<time>"),
    (re.compile(r"\b\d+(?:\.\d+)?%"), "<percent>"),
    (re.compile(r"(?:~|<=)?\b\d+(?:s|m\d*s?|h\d*m?)(?=\s|$|,|;|\))"), "<span>"),
    (re.compile(r"\b(?:1 d|23 h \d\d min)(?= \()"), "<span>"),
    (re.compile(r"http://localhost:\d+"), "http://localhost"),
    (re.compile(r"localhost:\d+"), "localhost"),
    (re.compile(r"\b\d+Mi\b"), "<memory>"),
    (re.compile(r"\d\.\d\d MB"), "<size>"),
    (re.compile(r" {2,}"), "  "),
)


@pytest.fixture(scope="module")
def appliance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApplianceProcess]:
    """An appliance of two systems whose pods do nothing."""
    root = tmp_path_factory.mktemp("appliance")
    (root / "cluster.yaml").write_text(_CLUSTER)
    with running_appliance(root / "data", "--cluster", str(root / "cluster.yaml")) as running:
        yield running


class Terminal:
    """Runs lines of a session; `@1` in a line is the first id that was seen, and so on."""

    def __init__(self, appliance: ApplianceProcess) -> None:
        self.appliance = appliance
        self.names: dict[str, str] = {}

    def run(self, line: str) -> str:
        typed = re.sub(r"@(\w+)", lambda found: self._known(found[0]), line)
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(shlex.split(typed))
        text = out.getvalue() + err.getvalue() + (f"[exit {code}]" if code else "")
        return self._steady(text).rstrip("\n")

    def learn(self, name: str) -> str:
        """Give a real name a word of its own; return the word."""
        if name not in self.names.values():
            kind = next(word for pattern, word in _VARIABLE if pattern.fullmatch(name))
            number = sum(word.startswith(f"@{kind}") for word in self.names)
            self.names[f"@{kind}{number}"] = name
        return next(word for word, known in self.names.items() if known == name)

    def _known(self, word: str) -> str:
        assert word in self.names, f"{word} was not seen yet; seen: {sorted(self.names)}"
        return self.names[word]

    def _steady(self, text: str) -> str:
        for pattern, _ in _VARIABLE:
            text = pattern.sub(lambda found: self.learn(found[0]), text)
        text = text.replace(self.appliance.state.config_path, "/home/alice/config_v2")
        text = re.sub(rf"(?<=\s){re.escape(platform.node())}(?=\s)", "<host>", text)
        text = text.replace(csctl_version(), "VERSION")
        for pattern, word in _CHANGING:
            text = pattern.sub(word, text)
        return "\n".join(line.rstrip() for line in text.split("\n"))


def test_a_session_with_every_command(
    appliance: ApplianceProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CSCONFIG_PATH", appliance.state.config_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("LOGNAME", "alice")
    monkeypatch.delenv("CSAUTH_TOKEN", raising=False)
    monkeypatch.chdir(tmp_path)
    terminal = Terminal(appliance)
    for _ in range(2):
        job = appliance.submit_execute(num_systems=1)
        appliance.wait_ready(job)
        terminal.learn(job)
    waiting = appliance.submit_execute(num_systems=2)
    terminal.learn(waiting)
    request = f"explain job {waiting}"
    wait_for(lambda: "Reason" in Terminal(appliance).run(request), what="a cycle of the queue")

    lines = [line for line in _SESSION.read_text().splitlines() if line.startswith(_PROMPT)]
    answers = [terminal.run(line.removeprefix(_PROMPT)) for line in lines]
    got = "\n\n".join(map("{}\n{}".format, lines, answers)) + "\n"

    if os.environ.get("CSCTL_WRITE_TRANSCRIPTS"):
        _SESSION.write_text(got)
    assert got == _SESSION.read_text()
    assert "Traceback" not in got


def test_the_session_has_every_command() -> None:
    typed = [
        shlex.split(line.removeprefix(_PROMPT))
        for line in _SESSION.read_text().splitlines()
        if line.startswith(_PROMPT)
    ]
    elsewhere = {
        *(("estimate",), ("profile", "job"), ("completion",), ("attach",)),
        *(("hold",), ("resume",), ("requeue",)),
    }
    missing = [
        words
        for words in _leaves(app, ())
        if words not in elsewhere and not any(tuple(each[: len(words)]) == words for each in typed)
    ]
    assert missing == []


def _leaves(command: click.Command, words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if not isinstance(command, click.Group):
        if not command.hidden:
            yield words
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        assert inner is not None
        yield from _leaves(inner, (*words, name))
