"""What benchmarks promise to say, and what they say."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from benchmarks import engine_bars
from benchmarks.engine_bars import Part
from benchmarks.engine_parties.interpreters import Program, fork_benchmark

_FILE = Path(__file__).with_name("promised_lines.json")
_FIGURE = re.compile(r"[<>=(]*[-+]?\d[\d,.]*(e[-+]?\d+)?[%xs),]*")
_VERDICTS = ("ok", "MISSED")


def broken_promises(
    part: Part,
    capsys: pytest.CaptureFixture[str],
    start: Callable[[Sequence[str]], Program] = fork_benchmark,
) -> list[str]:
    """Return what a trial of a benchmark, or of a table of parties, does not say as promised.

    These are lines that are missing, without figures and verdicts, and lines that say what could
    not be measured. Further lines break nothing; `promised_lines.json` is edited when one is meant
    to stay, to have another name or to go.
    """
    lines = engine_bars.run(part, is_small=True, start=start)
    promised = Counter(json.loads(_FILE.read_text())[part.name])
    found = Counter(said(capsys.readouterr().out))
    return [*(promised - found).elements(), *(line for line in lines if "not-measured" in line)]


def said(text: str) -> list[str]:
    """Return the bars, the parties of tables, and all there is where there are neither.

    Args:
        text: What a benchmark has printed, after a line with its name.
    """
    printed = text.strip().splitlines()[1:]
    told = [line for line in printed if line.endswith(_VERDICTS)]
    told += _parties(printed)
    if not told:
        told = [" ".join(_words(line, figure="#")) for line in printed]
    return sorted(words for line in told if (words := " ".join(_words(line))))


def _words(line: str, figure: str = "") -> Iterator[str]:
    """Yield the words of a line that are the same in every run."""
    for word in line.split():
        is_figure = bool(_FIGURE.fullmatch(word))
        if word not in _VERDICTS and (figure or not is_figure):
            yield figure if is_figure else word


def _parties(lines: Sequence[str]) -> Iterator[str]:
    """Yield the rows of tables, of which each is a party."""
    is_table = False
    for line in lines:
        is_head = line.startswith("party ")
        is_table = is_head or (is_table and bool(line.strip()) and not line.startswith("#"))
        if is_table and not is_head:
            yield line
