"""Bytes near right ones are read or refused, by every decoder; `make fuzz` runs a million."""

import pytest

from tests.fuzz.decoders import Decoder, decoders
from tests.fuzz.runner import fuzz

NUM_CASES = 10_000
DECODERS = decoders()
_NEEDS_A_KEY = "stream introduction"
"""Its server's challenge differs each time, so that no bytes are right."""


def test_no_decoder_breaks():
    findings = fuzz(DECODERS, NUM_CASES, seed=16)
    assert findings.crashes == {}
    assert findings.cases.total() >= NUM_CASES * 0.99


@pytest.mark.parametrize("name", sorted({*DECODERS} - {_NEEDS_A_KEY}))
def test_right_bytes_are_read(name):
    decoder = DECODERS[name]
    for seed in decoder.seeds:
        decoder.read(seed)


def test_what_breaks_is_found():
    findings = fuzz({"divides": BROKEN}, 200, seed=1)
    assert {where.partition(" ")[0] for _, where in findings.crashes} == {"ZeroDivisionError"}


BROKEN = Decoder(read=lambda data: 1 // (len(data) % 3), seeds=(b"a",))
