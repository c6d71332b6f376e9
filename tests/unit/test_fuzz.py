"""Bytes near right ones are read or refused, by every decoder; `make fuzz` runs a million."""

import json
import re
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import pytest

from tests.attack.web import OF_ADMINISTRATORS
from tests.fuzz import rest
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


DOCUMENT = json.loads((Path(__file__).parents[1] / "architecture" / "openapi.json").read_text())
BODIES = {
    **rest.BODIES,
    **{f"{method} {path} (attack)": body for method, path, body in OF_ADMINISTRATORS if body},
}


def body_schema(route):
    """Return the schema of a route's JSON body."""
    method, path, *_ = route.split()
    for known, operations in DOCUMENT["paths"].items():
        pattern = re.sub(r"\{[^}]*\}", "[^/]*", known)
        if known == path or re.fullmatch(pattern, path):
            content = operations[method.lower()]["requestBody"]["content"]
            return {**content["application/json"]["schema"], "components": DOCUMENT["components"]}
    raise AssertionError(f"There is no {route}.")


@pytest.mark.parametrize("route", sorted(BODIES))
def test_a_body_that_is_damaged_or_sent_by_an_attacker_is_right_to_begin_with(route):
    jsonschema.validate(BODIES[route], body_schema(route))


def test_what_breaks_is_found():
    findings = fuzz({"divides": BROKEN}, 200, seed=1)
    assert {where.partition(" ")[0] for _, where in findings.crashes} == {"ZeroDivisionError"}


BROKEN = Decoder(read=lambda data: 1 // (len(data) % 3), seeds=(b"a",))
