"""How log lines look: JSON objects in pods, one readable line on a terminal.

A message is constant; what varies goes into `extra` and becomes fields. Fields that hold for a
stretch of work (job, workflow, scheduling cycle) are bound with `log_fields`; fields that hold for
a whole process are given to `configure_logging`.
"""

import contextlib
import contextvars
import datetime as dt
import functools
import itertools
import json
import logging
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple, TextIO

from appliance.core.visible_text import indented, visible

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_NUM_STANDARD = len(vars(logging.makeLogRecord({})))
"""Fields of every record, which come before those of `extra`."""

_bound: contextvars.ContextVar[Mapping[str, object]] = contextvars.ContextVar("log_fields")


@contextlib.contextmanager
def log_fields(**fields: object) -> Iterator[None]:
    """Add fields to every line that this thread or task logs inside the context."""
    token = _bound.set({**_bound.get({}), **fields})
    try:
        yield
    finally:
        _bound.reset(token)


@contextlib.contextmanager
def lines_together() -> Iterator[None]:
    """Write what this thread logs in the block at once, at its end or when there is a warning.

    Each write lets another thread have the interpreter's lock, for which this one then waits.
    """
    outer, _gathered.lines = _gathered.lines, []
    try:
        yield
    finally:
        lines, _gathered.lines = _gathered.lines, outer
        _write(lines or ())


class _Gathered(threading.local):
    """What a thread has logged and not yet written; None while it writes at once."""

    lines: "list[_Line] | None" = None


_gathered = _Gathered()


class _LineHandler(logging.StreamHandler[TextIO]):
    """Writes a line for each record, or those of a block of one thread together."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, or gather it; never raises, as no handler does."""
        lines = _gathered.lines
        if lines is None:
            super().emit(record)
            return
        try:
            text = self.format(record) + self.terminator
        except Exception:  # noqa: BLE001 - whatever the record's fields raise
            self.handleError(record)
            return
        lines.append(_Line(self, record, text))
        if record.levelno >= logging.WARNING:
            _write(lines)
            lines.clear()

    def write(self, text: str, last: logging.LogRecord) -> None:
        """Write whole lines; `last` is the record of the last one."""
        self.acquire()
        try:
            self.stream.write(text)
            self.flush()
        except Exception:  # noqa: BLE001 - whatever the stream raises
            self.handleError(last)
        finally:
            self.release()


class _Line(NamedTuple):
    """A line that is yet to be written."""

    handler: _LineHandler
    record: logging.LogRecord
    text: str


def _write(lines: Sequence[_Line]) -> None:
    for handler, group in itertools.groupby(lines, key=attrgetter("handler")):
        mine = list(group)
        handler.write("".join([line.text for line in mine]), mine[-1].record)


def configure_logging(
    *,
    as_json: bool,
    fields: Mapping[str, object] | None = None,
    level: int = logging.INFO,
    stream: TextIO | None = None,
) -> None:
    """Send every log line of this process to one stream.

    Args:
        as_json: JSON objects rather than lines for a terminal.
        fields: Added to every line, as job and pod.
        level: Lowest level that is written.
        stream: Where to; None means standard output.
    """
    handler = _LineHandler(stream or sys.stdout)
    handler.setFormatter(JsonFormatter(fields or {}) if as_json else TerminalFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    # No formatter of ours shows them, and looking them up is a third of what a line costs; see
    # "Optimization" in Python's logging HOWTO.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging._srcfile = None


class JsonFormatter(logging.Formatter):
    """Writes a record as one JSON object.

    Args:
        fields: Added to every line.
    """

    def __init__(self, fields: Mapping[str, object]) -> None:
        super().__init__()
        self._fields = dict(fields)

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line of JSON."""
        line = {
            "time": _timestamp(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **self._fields,
            **_extra(record),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class TerminalFormatter(logging.Formatter):
    """Writes a record as one line for people, and its traceback, if there is one, set in below."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as text."""
        fields = "".join([f" {name}={value}" for name, value in _extra(record).items()])
        line = visible(f"{_timestamp(record)} {record.levelname:<7} {record.getMessage()}{fields}")
        if record.exc_info:
            line += "\n" + indented(self.formatException(record.exc_info))
        return line


def _timestamp(record: logging.LogRecord) -> str:
    seconds, part = divmod(record.created, 1.0)
    return f"{_second(int(seconds))}.{int(part * 1000):03d}Z"


@functools.lru_cache(maxsize=8)
def _second(seconds: int) -> str:
    """Return a time without its zone; many lines are of one second."""
    return dt.datetime.fromtimestamp(seconds, dt.UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _extra(record: logging.LogRecord) -> dict[str, object]:
    own = dict(itertools.islice(vars(record).items(), _NUM_STANDARD, None))
    if not _STANDARD.isdisjoint(own):  # what another handler has added
        own = {name: value for name, value in own.items() if name not in _STANDARD}
    bound = _bound.get(None)
    return {**bound, **own} if bound else own
