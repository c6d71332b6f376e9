"""Takes secrets out of what programs print, before it is kept or shown. Pure.

Two ways: a stream is cleaned of values that are known (`Redaction`), and a short text of what looks
like a token (`without_tokens`). A secret that is cut off is taken out as well: its start identifies
it, and longer starts are easier to guess the rest of.
"""

import re
from collections.abc import Iterable, Mapping

REPLACEMENT = b"[redacted]"

_MIN_SECRET_BYTES = 8
"""Shorter values are words that logs are full of, such as `true`; they protect nothing."""

_MARK_BYTES = 16
"""So much of a secret's start is taken for the secret."""

_SECRET_NAME = re.compile(
    r"TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY", re.IGNORECASE
)
_TOKEN = re.compile(r"eyJ[A-Za-z0-9_-]{8,}(?:\\?\.[A-Za-z0-9_-]*)*|(?<=[Bb]earer )[^\s'\"]+")
"""JSON Web Tokens, whole or cut off, and whatever follows the word `Bearer`."""


def secrets_of(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of the variables whose names say that they are secret."""
    return tuple(value for name, value in environment.items() if _SECRET_NAME.search(name))


def without_tokens(text: str) -> str:
    """Return a text without what looks like a token, for texts of which nothing else is known."""
    return _TOKEN.sub(REPLACEMENT.decode(), text)


class Redaction:
    """Takes known secrets out of a stream of bytes that comes in parts.

    Args:
        secrets: The secrets; short ones are left in.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        encoded = {each.encode(errors="surrogateescape") for each in secrets}
        self._secrets = sorted(each for each in encoded if len(each) >= _MIN_SECRET_BYTES)
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Return what of all that has come may be shown; the start of a secret is held back."""
        text, done, parts = self._held + data, 0, list[bytes]()
        while (found := self._find(text, done)) is not None:
            at, secret = found
            length = _common_length(text, at, secret)
            if at + length == len(text) and length < len(secret):
                break  # the rest may be still to come
            parts += [text[done:at], REPLACEMENT]
            done = at + length
        end = len(text) - self._num_held(text, done)
        if found is not None:
            end = min(end, found[0])
        self._held = text[end:]
        return b"".join((*parts, text[done:end]))

    def rest(self) -> bytes:
        """Return what was held back, once nothing more comes."""
        text, self._held = self._held, b""
        if any(text.startswith(_mark(each)) for each in self._secrets):
            return REPLACEMENT
        return text

    def _find(self, text: bytes, start: int) -> tuple[int, bytes] | None:
        """Return where the first secret begins; of several there, the one that agrees longest."""
        found = [
            (at, -_common_length(text, at, each), each)
            for each in self._secrets
            if (at := text.find(_mark(each), start)) >= 0
        ]
        if not found:
            return None
        at, _, secret = min(found)
        return at, secret

    def _num_held(self, text: bytes, start: int) -> int:
        """Return how many bytes at a text's end may be the start of a secret's mark."""
        longest = 0
        for each in self._secrets:
            mark = _mark(each)
            for length in range(min(len(mark) - 1, len(text) - start), longest, -1):
                if text.endswith(mark[:length]):
                    longest = length
                    break
        return longest


def _mark(secret: bytes) -> bytes:
    return secret[:_MARK_BYTES]


def _common_length(text: bytes, at: int, secret: bytes) -> int:
    length = min(len(secret), len(text) - at)
    while text[at : at + length] != secret[:length]:
        length -= 1
    return length
