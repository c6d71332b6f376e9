import contextlib
import io
import json
import logging

import pytest

from appliance.observability.logging import configure_logging, lines_together, log_fields


@pytest.fixture
def stream():
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield io.StringIO()
    root.handlers[:] = handlers
    root.setLevel(level)


def test_a_pod_logs_json_with_its_own_fields_and_those_of_the_moment(stream):
    configure_logging(as_json=True, fields={"pod": "chief-0"}, stream=stream)
    with log_fields(job="wsjob-1"):
        logging.getLogger("x").info("Step done", extra={"step": 3})
    line = json.loads(stream.getvalue())
    assert line["message"] == "Step done"
    assert (line["pod"], line["job"], line["step"]) == ("chief-0", "wsjob-1", 3)
    assert line["level"] == "INFO"


def test_bound_fields_end_with_their_context(stream):
    configure_logging(as_json=True, stream=stream)
    with log_fields(job="wsjob-1"):
        pass
    logging.getLogger("x").info("Later")
    assert "job" not in json.loads(stream.getvalue())


def test_a_terminal_gets_one_readable_line(stream):
    configure_logging(as_json=False, stream=stream)
    logging.getLogger("x").warning("Slow", extra={"seconds": 2})
    assert stream.getvalue().endswith("WARNING Slow seconds=2\n")


def test_a_traceback_is_kept(stream):
    configure_logging(as_json=True, stream=stream)
    try:
        raise KeyError("lost")
    except KeyError:
        logging.getLogger("x").exception("Failed")
    assert "KeyError: 'lost'" in json.loads(stream.getvalue())["traceback"]


def test_lines_of_a_block_are_written_together_at_its_end(stream):
    configure_logging(as_json=True, stream=stream)
    with lines_together():
        with log_fields(job="wsjob-1"):
            logging.getLogger("x").info("First")
        logging.getLogger("x").info("Second")
        assert not stream.getvalue()
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert (first["message"], first["job"]) == ("First", "wsjob-1")
    assert (second["message"], "job" in second) == ("Second", False)
    logging.getLogger("x").info("Third")
    assert len(stream.getvalue().splitlines()) == 3


def test_a_warning_is_written_at_once_behind_what_came_before(stream):
    configure_logging(as_json=False, stream=stream)
    with lines_together():
        logging.getLogger("x").info("Before")
        logging.getLogger("x").warning("Slow")
        assert [line.split()[2] for line in stream.getvalue().splitlines()] == ["Before", "Slow"]
    assert len(stream.getvalue().splitlines()) == 2


def test_lines_of_a_block_that_fails_are_written(stream):
    configure_logging(as_json=False, stream=stream)
    with contextlib.suppress(ZeroDivisionError), lines_together():
        logging.getLogger("x").info("Before")
        1 / 0  # noqa: B018
    assert stream.getvalue().endswith("Before\n")


def test_a_stream_that_cannot_be_written_fails_nobody(stream, capsys):
    configure_logging(as_json=False, stream=stream)
    stream.close()
    with lines_together():
        logging.getLogger("x").info("Before")
    assert "Before" in capsys.readouterr().err  # logging's own words on what went wrong
