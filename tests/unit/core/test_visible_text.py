"""What others wrote, at a terminal and in a line of a log."""

import io
import logging
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.core.clock import SystemClock
from appliance.core.visible_text import indented, visible, visible_lines
from appliance.observability.logging import TerminalFormatter
from csctl.command_line.invocation import Invocation
from csctl.output.log_lines import as_text, for_terminal
from workers.driver.script import say

ATTACKS = {
    "title of the window": "\x1b]0;root@other\x07",
    "clipboard": "\x1b]52;c;Y3VybA==\x07",
    "link to somewhere else": "\x1b]8;;http://other/\x1b\\here\x1b]8;;\x1b\\",
    "line above": "\x1b[1A\x1b[2K",
    "hidden text": "\x1b[8mhidden\x1b[0m",
    "C1 sequence": "\x9b31m",
    "bell": "\x07",
    "backspaces": "rm -rf /" + "\x08" * 8,
    "delete": "\x7f",
    "null": "a\0b",
    "vertical tab": "\x0b\x0c",
    "written over": "real\rforged",
    "right to left": "\u202e\u2066abc\u2069\u202c",
    "next line": "one\x85two\u2028three\u2029four",
    "invisible": "pass\u00adword\ufeff\u200b",
    "half a character": "\ud800",
}
OBEYED = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def is_harmless(text, keeps=""):
    return not any(unicodedata.category(char) in OBEYED for char in text if char not in keeps)


@pytest.fixture
def terminal():
    stream = io.StringIO()
    stream.isatty = lambda: True
    return stream


@pytest.mark.parametrize("name", ATTACKS)
def test_no_terminal_obeys_what_somebody_else_wrote(name, terminal, capsys):
    text = f"before {ATTACKS[name]} after"
    invocation = Invocation(environ={}, clock=SystemClock(), stdout=terminal)
    invocation.write(text)
    invocation.write_parts(text)  # character by character
    invocation.note(text)
    record = logging.LogRecord("name", logging.INFO, "", 1, text, (), None)
    record.argv = [text]
    terminal.write(TerminalFormatter().format(record))
    terminal.write(visible(text) + indented(text))
    shown = terminal.getvalue() + capsys.readouterr().err
    assert shown.count("before") == 7
    assert shown.count("after") == 7
    assert is_harmless(shown, keeps="\n")


def test_what_is_ordinary_stays_as_it_is():
    text = (
        "Zo\u00eb \u4f60\u597d \u0645\u0631\u062d\u0628\u0627 \U0001f468\u200d\U0001f469 50\u00a0%"
    )
    assert visible(text) == text
    assert visible_lines(f"a\tb\n{text}") == f"a\tb\n{text}"
    assert visible("a\tb\n") == "a\\tb\\n"


@given(st.text())
def test_one_text_is_one_line(text):
    assert len(visible(text).splitlines()) <= 1
    assert is_harmless(visible(text), keeps="\u200c\u200d")
    assert all(line.startswith("  ") for line in indented(text).split("\n"))


@pytest.mark.parametrize(
    "pieces", [["a\r\nb\rc"], ["a\r", "\nb\r", "c"], ["a", "\r", "\n", "b", "\r", "", "c"]]
)
def test_a_line_that_is_written_over_is_a_line_of_its_own(pieces):
    assert "".join(for_terminal(pieces)) == "a\nb\nc"


def test_a_file_gets_a_log_as_it_is():
    stream = io.StringIO()
    text = "".join(ATTACKS.values())
    Invocation(environ={}, clock=SystemClock(), stdout=stream).write_parts([text])
    assert stream.getvalue() == text


FORGED = "x\n2026-01-01T00:00:00.000Z INFO    Everything is well"


def test_one_record_is_one_line_and_its_traceback_is_set_in(capsys):
    say(f"there is no program {FORGED}")
    try:
        raise ValueError(FORGED)
    except ValueError as error:
        record = logging.LogRecord("name", logging.INFO, "", 1, FORGED, (), error)
        record.exc_info = (type(error), error, error.__traceback__)
    record.argv, record.session = [FORGED], FORGED
    lines = [*capsys.readouterr().out.splitlines(), *TerminalFormatter().format(record).split("\n")]
    assert [line for line in lines if line.startswith("2026-01-01")] == []
    stored = (
        '{"time": "t", "level": "INFO", "logger": "l", "message": "m\\nforged", '
        '"argv": "x\\nforged", "traceback": "Traceback:\\nforged"}\n'
    )
    assert as_text(stored) == "t INFO    m\\nforged argv=x\\nforged\n  Traceback:\n  forged\n"
