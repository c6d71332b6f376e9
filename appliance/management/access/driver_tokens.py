"""The token by which a driver's client is recognised, valid for its driver and nothing else.

The client sends whatever is in `CSAUTH_TOKEN` with every call, if it is a JSON Web Token that has
not expired. A driver's script gets one that names the driver, so that the jobs it submits join the
driver's workflow; the user's own token never leaves the user's terminal.
"""

import base64
import hashlib
import hmac
import json
from pathlib import Path

from appliance.core.ids import JobId
from appliance.management.store.keys import DRIVER_TOKENS, ensure_key

_ISSUER = "wafer-appliance/driver"
_ENCODER = json.JSONEncoder(separators=(",", ":"))
_EXPIRY = 4102444800
"""The year 2100: the driver's end, not the clock, ends the token; the client wants some expiry."""


class DriverTokens:
    """Makes and reads the tokens of drivers.

    Args:
        key: Signs them.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key

    def mint(self, driver: JobId) -> str:
        """Return the token of a driver."""
        claims: dict[str, str | int] = {"iss": _ISSUER, "sub": driver, "exp": _EXPIRY}
        body = f"{_HEADER}.{_encode(claims)}"
        return f"{body}.{self._sign(body)}"

    def find(self, token: str) -> JobId | None:
        """Return the driver whose token this is; None if it is no driver's."""
        body, _, signature = token.rpartition(".")
        if not body or not hmac.compare_digest(self._sign(body).encode(), signature.encode()):
            return None
        claims = json.loads(_decode(body.rpartition(".")[2]))
        return JobId(claims["sub"]) if claims.get("iss") == _ISSUER else None

    def _sign(self, body: str) -> str:
        # `hmac.digest` gives the interpreter's lock away, which costs far more than a short digest.
        digest = hmac.new(self._key, body.encode(), hashlib.sha256).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def open_driver_tokens(data_dir: Path) -> DriverTokens:
    """Return the tokens of an appliance; raises as `keys.ensure_key` does."""
    return DriverTokens(ensure_key(data_dir, DRIVER_TOKENS))


def _encode(fields: dict[str, str | int]) -> str:
    text = _ENCODER.encode(fields).encode()
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


_HEADER = _encode({"alg": "HS256", "typ": "JWT"})
