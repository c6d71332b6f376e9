"""Which nodes may join: those with a token made from the appliance's own secret.

Nothing of a token is stored: its secret is derived from its id and the appliance's secret, and its
id contains its expiry. To void every token, remove `nodes.key` from the data directory and restart
management.
"""

import datetime as dt
import hashlib
import hmac
import secrets
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes

from appliance.core.clock import Clock
from appliance.core.cluster.join_token import JoinToken, end_seconds
from appliance.core.errors import ForbiddenError
from appliance.management.access.stream_secrets import ensure_identity
from appliance.management.store.keys import NODES, ensure_key
from appliance.streams.handshake import Message

_RANDOM_BYTES = 6


class JoinTokens:
    """The tokens of an appliance.

    Args:
        data_dir: Its data directory.
        clock: Says what has expired.
    """

    def __init__(self, data_dir: Path, clock: Clock) -> None:
        (data_dir / "tls").mkdir(mode=0o700, parents=True, exist_ok=True)
        self._secret = ensure_key(data_dir, NODES)
        self._clock = clock
        self.identity = ensure_identity(data_dir / "tls" / "nodes.pem", clock)

    def mint(self, life: dt.timedelta) -> JoinToken:
        """Return a fresh token; it holds no longer than management's certificate does."""
        certificate = x509.load_pem_x509_certificate(self.identity.read_bytes())
        end = min(self._clock.now() + life, certificate.not_valid_after_utc)
        token_id = f"{int(end.timestamp()):x}-{secrets.token_hex(_RANDOM_BYTES)}"
        return JoinToken(
            id=token_id,
            secret=self._secret_of(token_id),
            fingerprint=certificate.fingerprint(hashes.SHA256()).hex(),
        )

    def key_of(self, hello: Message) -> bytes:
        """Return the secret that the agent has to know, as bytes."""
        return self._secret_of(str(hello.get("token"))).encode()

    def check(self, hello: Message) -> None:
        """Check that the token of an agent, which knows its secret, still holds.

        Raises:
            ForbiddenError: It does not.
        """
        end = end_seconds(str(hello.get("token")))
        if self._clock.now().timestamp() >= end:
            when = dt.datetime.fromtimestamp(end, dt.UTC)
            raise ForbiddenError(
                f"The join token of {hello.get('label')} has expired at {when:%Y-%m-%d %H:%M} UTC.",
                hint="Make a new one with `appliance token node`.",
            )

    def _secret_of(self, token_id: str) -> str:
        return hmac.new(self._secret, token_id.encode(), hashlib.sha256).hexdigest()
