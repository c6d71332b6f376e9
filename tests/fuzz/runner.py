"""Runs cases against decoders and collects what breaks: unexpected errors, and hangs."""

import random
import signal
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.fuzz.decoders import Decoder
from tests.fuzz.mutation import mutated

MOST_SECONDS = 20
"""What one case may take, on a busy machine."""


class HangError(BaseException):
    """A case that takes too long."""


@dataclass
class Findings:
    """What a run has found.

    Attributes:
        cases: How many cases each target has had.
        refused: How many of them it refused.
        crashes: The end of the traceback, with the bytes, by target and place.
    """

    cases: Counter = field(default_factory=Counter)
    refused: Counter = field(default_factory=Counter)
    crashes: dict[tuple[str, str], str] = field(default_factory=dict)


def fuzz(targets: Mapping[str, Decoder], num_cases: int, *, seed: int) -> Findings:
    """Run so many cases, dealt out by the targets' weights."""
    findings = Findings()
    total = sum(decoder.weight for decoder in targets.values())
    for name, decoder in targets.items():
        rng = random.Random(f"{seed} {name}")
        for _ in range(round(num_cases * decoder.weight / total)):
            _one(name, decoder, mutated(rng, decoder.seeds), findings)
    return findings


def _one(name: str, decoder: Decoder, data: bytes, findings: Findings) -> None:
    findings.cases[name] += 1
    try:
        with _alarm():
            decoder.read(data)
    except decoder.expected_errors:
        findings.refused[name] += 1
    except (Exception, HangError) as error:  # noqa: BLE001 - whatever it is, it is the finding
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{type(error).__name__} at {place.filename.rpartition('/')[2]}:{place.lineno}"
        end = "".join(traceback.format_exception(error)[-3:])
        findings.crashes.setdefault((name, where), f"{end}\ninput: {data[:300]!r}")


@contextmanager
def _alarm() -> Iterator[None]:
    def ring(*_: object) -> None:
        raise HangError(f"more than {MOST_SECONDS} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, MOST_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
