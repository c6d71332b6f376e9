"""Signed tokens: minting, checking, revoking.

A token is a JSON Web Token, because that is what the client expects in `CSAUTH_TOKEN`: it reads the
expiry itself. Ours is signed with a key that never leaves the data directory, and its id is looked
up at every use (at most a second late), so that revoking works. What a user may do is not in the
token but in their account, and changes at once.
"""

import datetime as dt
import hashlib
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from types import MappingProxyType

import jwt

from appliance.core.clock import Clock
from appliance.core.cluster.access import Account, TokenRecord
from appliance.core.errors import UnauthenticatedError, UserError
from appliance.storage.users.access import AccessRepository

_ALGORITHM = "HS256"
_ISSUER = "wafer-appliance"
_ID_BYTES = 9
_CACHE_SECONDS = 1.0
"""How late a revocation may be noticed."""
_MAX_CACHED = 10_000
_PEER = "peer_uid"
"""Claim of a login: whose browser made it, of this machine's users; null if of none."""
LOGIN_SECONDS = 12 * 3600
"""Life of a browser's login; a working day."""

_HINT = "`appliance token create` mints one; put it into CSAUTH_TOKEN."


@dataclass(frozen=True, slots=True, kw_only=True)
class Minted:
    """A new token; the text is shown once and not stored."""

    record: TokenRecord
    text: str


class Tokens:
    """Mints, checks and revokes tokens.

    Args:
        repository: Where accounts and tokens are kept.
        key: Signs the tokens.
        clock: Tells which have expired.
    """

    def __init__(self, repository: AccessRepository, key: bytes, clock: Clock) -> None:
        self._repository = repository
        self._key = key
        self._clock = clock
        self._lock = Lock()
        self._cache: OrderedDict[str, tuple[float, TokenRecord | None]] = OrderedDict()

    def mint(self, user: str, *, label: str = "", seconds: int | None = None) -> Minted:
        """Mint a token for a user.

        Args:
            user: Name of an account.
            seconds: Its life; None for no end.

        Raises:
            NotFoundError: There is no such user.
            UserError: Its life is not positive.
        """
        return self._mint(user, label=label, seconds=seconds, parent="")

    def log_in(self, text: str, peer_uid: int | None) -> Minted:
        """Mint a login for a browser from a token; it ends with that token or before.

        Args:
            text: The token.
            peer_uid: Whose connection it came by; the login counts on no other user's.

        Raises:
            UnauthenticatedError: The token is not valid, or is a login itself.
        """
        parent = self.check(text, peer_uid)
        if parent.is_login:
            raise UnauthenticatedError("A login cannot be used to log in.", hint=_HINT)
        seconds = LOGIN_SECONDS
        if parent.expires_at is not None:
            left = (parent.expires_at - self._clock.now()).total_seconds()
            seconds = max(1, min(seconds, int(left)))
        return self._mint(
            parent.user,
            label="browser",
            seconds=seconds,
            parent=parent.id,
            more_claims={_PEER: peer_uid},
        )

    def check(self, text: str, peer_uid: int | None) -> TokenRecord:
        """Return the token that a text is.

        A browser sends its cookies to every port of a host, so whoever else listens on this machine
        may be sent a login; he is not known by it.

        Args:
            text: The token.
            peer_uid: Whose connection it came by, of this machine's users; None if of none.

        Raises:
            UnauthenticatedError: It is not ours, expired or revoked, or a login that another user's
                browser has made.
        """
        try:
            claims = jwt.decode(
                text,
                self._key,
                algorithms=[_ALGORITHM],
                issuer=_ISSUER,
                # The expiry is checked below, by our own clock.
                options={"require": ["jti", "sub"], "verify_exp": False, "verify_iat": False},
            )
        except jwt.InvalidTokenError as error:
            raise UnauthenticatedError(f"The token is not valid: {error}.", hint=_HINT) from error
        record = self._find(str(claims["jti"]))
        if record is None or record.user != claims["sub"]:
            raise UnauthenticatedError(f"Token {claims['jti']} is not known.", hint=_HINT)
        self._check_valid(record)
        if claims.get(_PEER, peer_uid) != peer_uid:
            raise UnauthenticatedError(
                f"Login {record.id} was made from elsewhere, or by another user of this machine.",
                hint="Log in here, too.",
            )
        return record

    def check_again(self, token: str) -> TokenRecord:
        """Return a token that was checked before, by its id.

        Raises:
            UnauthenticatedError: It has expired or was revoked since.
        """
        record = self._find(token)
        if record is None:
            raise UnauthenticatedError(f"Token {token} is not known.", hint=_HINT)
        self._check_valid(record)
        return record

    def revoke(self, token: str) -> TokenRecord:
        """Revoke a token and the logins that came of it; raises `NotFoundError`."""
        record = self._repository.revoke_token(token)
        with self._lock:
            self._cache.clear()
        return record

    def derived_key(self, purpose: str) -> bytes:
        """Return a key of 32 bytes for another purpose than signing tokens."""
        return hmac.new(self._key, f"key:{purpose}".encode(), hashlib.sha256).digest()

    def proof(self, login: str) -> str:
        """Return what a login's changes must carry besides; empty without a login.

        Another site's page can make a browser send the cookie, but it cannot read this.
        """
        if not login:
            return ""
        return hmac.new(self._key, f"csrf:{login}".encode(), hashlib.sha256).hexdigest()

    def is_proof(self, login: str, proof: str) -> bool:
        """Whether this is the proof of a login."""
        return hmac.compare_digest(self.proof(login).encode(), proof.encode())

    def list(self, user: str = "") -> Sequence[TokenRecord]:
        """Return the tokens of one user or of all, newest first."""
        return self._repository.tokens(user)

    def find(self, token: str) -> TokenRecord | None:
        """Return a token, or None if there is none of that id."""
        return self._repository.find_token(token)

    def _mint(
        self,
        user: str,
        *,
        label: str,
        seconds: int | None,
        parent: str,
        more_claims: Mapping[str, object] = MappingProxyType({}),
    ) -> Minted:
        if seconds is not None and seconds < 1:
            raise UserError(f"A token of {seconds} seconds would be born dead; give 1 or more.")
        account = self._repository.load_account(user)
        now = self._clock.now()
        expires_at = None if seconds is None else now + dt.timedelta(seconds=seconds)
        record = self._repository.create_token(
            f"tok-{secrets.token_hex(_ID_BYTES)}",
            user=user,
            label=label,
            expires_at=expires_at,
            parent=parent,
        )
        return Minted(record=record, text=self._sign(record, account, more_claims))

    def _sign(
        self, record: TokenRecord, account: Account, more_claims: Mapping[str, object]
    ) -> str:
        claims: dict[str, object] = {
            **more_claims,
            "iss": _ISSUER,
            "sub": record.user,
            "jti": record.id,
            "uid": account.uid,
            "gid": account.gid,
            "iat": int(record.created_at.timestamp()),
        }
        if record.expires_at is not None:
            claims["exp"] = int(record.expires_at.timestamp())
        else:  # the client takes a token without an end for one that has expired
            claims["exp"] = int((record.created_at + dt.timedelta(days=36500)).timestamp())
        return jwt.encode(claims, self._key, algorithm=_ALGORITHM)

    def _check_valid(self, record: TokenRecord) -> None:
        if not record.is_valid_at(self._clock.now()):
            how = "was revoked" if record.revoked_at else "has expired"
            raise UnauthenticatedError(f"Token {record.id} {how}.", hint=_HINT)
        if record.parent:
            self._check_parent(record)

    def _check_parent(self, record: TokenRecord) -> None:
        parent = self._find(record.parent)
        if parent is None or not parent.is_valid_at(self._clock.now()):
            raise UnauthenticatedError(
                f"Login {record.id} ended with token {record.parent}.", hint="Log in again."
            )

    def _find(self, token: str) -> TokenRecord | None:
        now = self._clock.monotonic_seconds()
        with self._lock:
            at, record = self._cache.get(token, (now - 2 * _CACHE_SECONDS, None))
        if now - at <= _CACHE_SECONDS:
            return record
        record = self._repository.find_token(token)
        with self._lock:
            self._cache[token] = (now, record)
            self._cache.move_to_end(token)
            if len(self._cache) > _MAX_CACHED:
                self._cache.popitem(last=False)
        return record
