"""Logs of pods as text."""

import io
import json
import logging

import pytest

from appliance.observability.logging import JsonFormatter
from csctl.output.log_lines import as_text, readable


def ours(message: str = "Job launched", **extra: object) -> str:
    """Return a line as our pods write it."""
    record = logging.makeLogRecord(
        {"name": "workers.csx", "levelname": "INFO", "msg": message, "created": 1.25, **extra}
    )
    return JsonFormatter({"job": "wsjob-a", "pod": "chief-0"}).format(record) + "\n"


def test_a_line_of_ours_is_text_without_what_the_reader_knows() -> None:
    assert as_text(ours(step=3, why="it is due")) == (
        "1970-01-01T00:00:01.250Z INFO    Job launched step=3 why=it is due\n"
    )


def test_a_traceback_stands_below_its_line() -> None:
    line = json.dumps({**json.loads(ours()), "traceback": "Traceback:\n  ValueError"})
    assert as_text(line).endswith("INFO    Job launched\n  Traceback:\n    ValueError")


@pytest.mark.parametrize(
    "text",
    [
        "loss=2.5\n",
        '{"time": 3}\n',
        '{"loss": 2.5}\n',
        "{not json\n",
        "[" * 100_000 + "\n",
        '{"a":' * 100_000 + "\n",
        "no end of line",
        '{"no end',
        "\n",
    ],
)
def test_whatever_a_script_prints_is_passed_on_as_it_is(text: str) -> None:
    assert "".join(readable([text])) == text


@pytest.mark.parametrize("size", [1, 7, 50, 10_000])
def test_a_log_reads_the_same_wherever_it_is_cut(size: int) -> None:
    log = ours() + "progress 1" + "\rprogress {2}\n" + ours("Ended") + '{"loss": 1}\n' + "{"
    pieces = io.StringIO(log)
    found = "".join(readable(iter(lambda: pieces.read(size), "")))
    assert found == "".join(as_text(line) for line in io.StringIO(log, newline="\n"))
    assert found.count("INFO") == 2


def test_what_is_no_line_of_ours_does_not_wait_for_its_end() -> None:
    pieces = readable(iter(["50 %", " done"]))
    assert next(pieces) == "50 %"
