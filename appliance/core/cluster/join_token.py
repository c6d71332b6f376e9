"""The join token: proves that a node may join, and identifies the right management."""

from dataclasses import dataclass

from appliance.core.errors import UserError

_PREFIX = "wsc-join"


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinToken:
    """A join token; only the id ever travels.

    Attributes:
        id: Says which one it is, and until when it holds: seconds since the epoch as hexadecimal
            digits, a dash, random digits.
        secret: What both ends know.
        fingerprint: SHA-256 of management's certificate, as hexadecimal digits.
    """

    id: str
    secret: str
    fingerprint: str

    @property
    def text(self) -> str:
        """What an administrator hands over."""
        return ".".join((_PREFIX, self.id, self.secret, self.fingerprint))

    @classmethod
    def parse(cls, text: str) -> "JoinToken":
        """Return the token of a text.

        Raises:
            UserError: It is none.
        """
        parts = text.strip().split(".")
        if len(parts) != 4 or parts[0] != _PREFIX or not all(parts):
            raise UserError(
                f"The join token has {len(parts)} parts and begins with {parts[0][:12]!r}; it has "
                f"4 and begins with {_PREFIX!r}.",
                hint="`appliance token node` prints one, on management's machine.",
            )
        return cls(id=parts[1], secret=parts[2], fingerprint=parts[3])


def end_seconds(token_id: str) -> float:
    """Return until when a token holds, in seconds since the epoch; 0 if its id says no time."""
    try:
        return float(int(token_id.partition("-")[0], 16))
    except (ValueError, OverflowError):
        return 0.0
