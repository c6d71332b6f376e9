"""Seeded mutation: bytes near those that are right, and text with what breaks parsers."""

import random
from collections.abc import Sequence

NASTY = (
    *("", "\x00", "\ud800", "\udfff\ud800", "\u202e", "\ufeff", "\u2028", "a\u0300" * 50),
    *("\U0001f680", "../" * 30, "%00", "%n%s", "x" * 70_000, "'; drop table jobs;--", "{{7*7}}"),
    *("NaN", "-Infinity", "1e999", "9" * 5000, "-0", "0x1F", "true", "null", "[]", "{}"),
)
"""Texts that have broken parsers, databases and terminals; some are no text that UTF-8 can say."""

_TOKENS = (
    *(b"\x00", b"\xff" * 8, b"\x80" * 10, b"\n", b"\r\n", b'"', b"\\", b"{", b"}", b"[", b"]"),
    *(b"<", b">", b":", b",", b"-1", b"0", b"1e308", b"9" * 30, b"null", b"%", b"x", b"!!python/"),
    *(b"&a", b"*a", b"\xed\xa0\x80", b"tensor<", b"i64", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff"),
)


def mutated(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """Return bytes that are one of the seeds but for some changes."""
    if rng.random() < 0.02:
        return rng.randbytes(rng.randrange(200))
    data = bytearray(rng.choice(seeds))
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        _CHANGES[rng.randrange(len(_CHANGES))](rng, data, seeds)
    return bytes(data)


def _flip(rng: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _replace(rng: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    at = rng.randrange(len(data) + 1)
    token = rng.choice(_TOKENS)
    data[at : at + rng.choice((0, 1, len(token)))] = token


def _cut(rng: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    at = rng.randrange(len(data) + 1)
    del data[at : at + rng.choice((1, 2, 8, 1 << 20))]


def _repeat(rng: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    at = rng.randrange(len(data) + 1)
    part = data[at : at + rng.randrange(1, 40)]
    data[at:at] = part * rng.choice((1, 2, 30))


def _splice(rng: random.Random, data: bytearray, seeds: Sequence[bytes]) -> None:
    other = rng.choice(seeds)
    at, there = rng.randrange(len(data) + 1), rng.randrange(len(other) + 1)
    data[at:] = other[there : there + 4096]


def _word(rng: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    """Put another word of the data where one stands."""
    words = bytes(data).split()
    if len(words) > 1:
        old, new = rng.choice(words), rng.choice(words)
        at = data.find(old)
        data[at : at + len(old)] = new


_CHANGES = (_flip, _replace, _cut, _repeat, _splice, _word)


def nasty_json(rng: random.Random, value: object, *, depth: int = 0) -> object:
    """Return a JSON value that is the given one but for what stands in some places."""
    if rng.random() < 0.15:
        return rng.choice((*NASTY, None, True, -1, 1 << 70, 1e308, [], {}, [[]] * 3))
    if isinstance(value, dict):
        changed = {key: nasty_json(rng, each, depth=depth + 1) for key, each in value.items()}
        if rng.random() < 0.1:
            changed[rng.choice(NASTY)] = rng.choice(NASTY)
        if changed and rng.random() < 0.1:
            del changed[rng.choice(list(changed))]
        return changed
    if isinstance(value, list):
        return [nasty_json(rng, each, depth=depth + 1) for each in value]
    return value
