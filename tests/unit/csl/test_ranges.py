"""Ranges whose bounds are computed count as known ones do, up and down, at the ends of a type."""

import random

import pytest

from tests.support.csl_runs import run

TOP = """
var total: u32 = 0; var turns: u32 = 0;
fn go(start: TYPE, stop: TYPE, step: TYPE) void {
  var a = start; var b = stop; var s = step; turns = 0;
  for (@range(TYPE, a, b, s)) |i, k| {
    a = 3; b = 2; s = 3; turns += 1;
    total = total * 31 + @as(u32, @bitcast(PATTERN, i) & 0x7f) + @as(u32, k);
  }
  total = total * 7 + turns;
}
"""
MASK = 0xFFFFFFFF
MOST_TURNS = 300


def calls(bits: int, *, signed: bool) -> tuple[list[str], int]:
    """Draw ranges at the ends of a type; return their calls, and what `total` is after them."""
    chance = random.Random(bits)
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    ends = (low, high, 0, low + 1, high - 1, low // 2, high // 2)
    steps = (1, high, high // 3, high // 2 + 1, 5) + ((-1, low, low // 3, -7) if signed else ())
    texts, total = [], 0
    while len(texts) < 50:
        near = [chance.choice(ends) + chance.randint(-3, 3) for _ in range(2)]
        start, stop = (max(low, min(high, number)) for number in near)
        numbers = range(start, stop, chance.choice(steps))
        if -(-abs(stop - start) // abs(numbers.step)) > MOST_TURNS:
            continue
        for k, number in enumerate(numbers):
            total = (total * 31 + (number & 0x7F) + k) & MASK
        total = (total * 7 + len(numbers)) & MASK
        texts.append(f"go({start}, {stop}, {numbers.step});")
    return texts, total


@pytest.mark.parametrize("kind", ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"])
def test_a_range_that_is_computed_counts_as_its_bounds_were_when_it_began(kind: str) -> None:
    texts, total = calls(int(kind[1:]), signed=kind[0] == "i")
    top = TOP.replace("TYPE", kind).replace("PATTERN", f"u{kind[1:]}")
    words, _ = run(top, f"{' '.join(texts)} out[0] = total;", architecture="wse3")
    assert words[0] == total
