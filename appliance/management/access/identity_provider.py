"""Asks an identity provider that speaks OpenID Connect, and checks its tokens.

The authorization-code flow with PKCE: the browser goes to the provider with a challenge, comes back
with a code, and the appliance trades the code and the challenge's secret for an ID token. A token
counts if it is signed by one of the provider's published keys with an asymmetric algorithm, is made
by this issuer for this client, has not expired and carries the nonce of this very login.
"""

import ssl
import threading
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
from authlib.common.errors import AuthlibBaseError
from authlib.deprecate import AuthlibDeprecationWarning
from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet, KeySetSerialization

from appliance.core.clock import Clock
from appliance.core.errors import ClusterError, UnauthenticatedError, UserError
from appliance.management.access.provider_options import Attempt, ProviderOptions

with warnings.catch_warnings():
    # It recommends httpx's successor; the appliance's other clients use httpx.
    warnings.simplefilter("ignore", AuthlibDeprecationWarning)
    from authlib.integrations.httpx_client import OAuth2Client

ALGORITHMS = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "Ed25519",
)
"""How tokens may be signed: never by a secret that two share, never not at all."""

_TIMEOUT_SECONDS = 10.0
_DISCOVERY_SECONDS = 3600.0
"""What the provider says of itself is asked again after so long."""
_KEYS_SECONDS = 600.0
"""A key that the provider has withdrawn counts no longer than this."""
_KEYS_PAUSE_SECONDS = 30.0
"""Unknown keys make us ask again, but not more often."""
_LEEWAY_SECONDS = 60
"""Clocks may differ by so much."""


class IdentityProvider:
    """Asks one provider.

    Args:
        options: Which, and as whom.
        redirect_uri: Where it sends people back to.
        clock: Tells which tokens have expired.
    """

    def __init__(self, options: ProviderOptions, redirect_uri: str, clock: Clock) -> None:
        self._options, self._redirect_uri, self._clock = options, redirect_uri, clock
        self._verify = _trust(options)
        self._lock = threading.Lock()
        self._metadata: Mapping[str, Any] | None = None
        now = clock.monotonic_seconds()
        self._metadata_until = self._keys_after = self._keys_until = now
        self._keys: KeySet | None = None

    def authorization_url(self, attempt: Attempt) -> str:
        """Return where a browser goes to log in; raises `ClusterError` without the provider."""
        endpoint = self._endpoint("authorization_endpoint")
        with self._client() as client:
            url, _ = client.create_authorization_url(
                endpoint, state=attempt.state, nonce=attempt.nonce, code_verifier=attempt.verifier
            )
        return str(url)

    def claims(self, code: str, attempt: Attempt) -> dict[str, Any]:
        """Trade a code for what the provider says of the person.

        Raises:
            UnauthenticatedError: The code or the token is not good.
            ClusterError: The provider does not answer.
        """
        endpoint = self._endpoint("token_endpoint")
        try:
            with self._client() as client:
                answer = client.fetch_token(
                    endpoint,
                    code=code,
                    code_verifier=attempt.verifier,
                    grant_type="authorization_code",
                )
        except AuthlibBaseError as error:
            raise UnauthenticatedError(
                f"The identity provider refuses the login: {error.error}.", hint="Log in again."
            ) from error
        except (httpx.HTTPError, ValueError) as error:
            raise self._silent(error) from error
        text = answer.get("id_token")
        if not isinstance(text, str):
            raise UnauthenticatedError("The identity provider has answered without an ID token.")
        return self.check(text, nonce=attempt.nonce, access_token=answer.get("access_token"))

    def check(self, text: str, *, nonce: str, access_token: object = None) -> dict[str, Any]:
        """Return the claims of an ID token; raises `UnauthenticatedError` if it is not good."""
        try:
            token = self._decode(text)
            claims = CodeIDToken(
                token.claims,
                token.header,
                options={
                    "iss": {"essential": True, "value": self._options.issuer},
                    "aud": {"essential": True, "value": self._options.client_id},
                },
                params={
                    "nonce": nonce,
                    "client_id": self._options.client_id,
                    "access_token": access_token,
                },
            )
            claims.validate(now=int(self._clock.now().timestamp()), leeway=_LEEWAY_SECONDS)
        except (JoseError, AuthlibBaseError, ValueError, TypeError) as error:
            raise UnauthenticatedError(
                f"The identity provider's token is not good: {error}.", hint="Log in again."
            ) from error
        return dict(claims)

    def _decode(self, text: str) -> jwt.Token:
        try:
            return jwt.decode(text, self._load_keys(), algorithms=list(ALGORITHMS))
        except (JoseError, ValueError):
            if not self._forget_keys():
                raise
        return jwt.decode(text, self._load_keys(), algorithms=list(ALGORITHMS))  # keys were changed

    def _forget_keys(self) -> bool:
        """Have the keys asked for again, unless that was done moments ago."""
        with self._lock:
            now = self._clock.monotonic_seconds()
            if now < self._keys_after:
                return False
            self._keys, self._keys_after = None, now + _KEYS_PAUSE_SECONDS
            return True

    def _load_keys(self) -> KeySet:
        now = self._clock.monotonic_seconds()
        with self._lock:
            keys = self._keys if now < self._keys_until else None
        if keys is None:
            try:
                keys = KeySet.import_key_set(_key_set(self._ask(self._endpoint("jwks_uri"))))
            except (JoseError, KeyError, TypeError, ValueError) as error:
                raise self._silent(error) from error
            with self._lock:
                self._keys, self._keys_until = keys, now + _KEYS_SECONDS
        return keys

    def _endpoint(self, name: str) -> str:
        url = self._discover().get(name)
        if not isinstance(url, str):
            raise ClusterError(f"The identity provider {self._options.issuer} names no {name}.")
        if self._options.issuer.startswith("https:") and not url.startswith("https:"):
            raise ClusterError(
                f"The identity provider {self._options.issuer} names a {name} without TLS, {url}.",
                hint="Codes, secrets and keys are not sent there: have it name an https:// URL.",
            )
        return url

    def _discover(self) -> Mapping[str, Any]:
        now = self._clock.monotonic_seconds()
        with self._lock:
            if self._metadata is not None and now < self._metadata_until:
                return self._metadata
        issuer = self._options.issuer
        found = self._ask(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
        if found.get("issuer") != issuer:
            raise ClusterError(
                f"{issuer} calls itself {found.get('issuer')!r}, so its tokens would be refused.",
                hint="Write the issuer of --oidc as the provider does.",
            )
        with self._lock:
            self._metadata, self._metadata_until = found, now + _DISCOVERY_SECONDS
        return found

    def _ask(self, url: str) -> dict[str, Any]:
        try:
            answer = httpx.get(url, timeout=_TIMEOUT_SECONDS, verify=self._verify, trust_env=False)
            answer.raise_for_status()
            found = answer.json()
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise self._silent(error) from error
        if not isinstance(found, dict):
            raise self._silent(TypeError("no JSON object"))
        return found

    def _client(self) -> OAuth2Client:
        options = self._options
        return OAuth2Client(
            options.client_id,
            _secret_of(options) or None,
            token_endpoint_auth_method=self._how_it_proves_itself(),
            scope=" ".join(options.scopes),
            redirect_uri=self._redirect_uri,
            code_challenge_method="S256",
            timeout=_TIMEOUT_SECONDS,
            verify=self._verify,
            trust_env=False,
        )

    def _how_it_proves_itself(self) -> str:
        if not self._options.client_secret_file:
            return "none"
        known = self._discover().get(
            "token_endpoint_auth_methods_supported", ["client_secret_basic"]
        )
        return "client_secret_basic" if "client_secret_basic" in known else "client_secret_post"

    def _silent(self, error: Exception) -> ClusterError:
        return ClusterError(
            f"The identity provider {self._options.issuer} gives no usable answer "
            f"({type(error).__name__}).",
            hint="Log in with a token meanwhile.",
        )


def _trust(options: ProviderOptions) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=options.authority_file or None)
    except (OSError, ssl.SSLError) as error:
        raise UserError(
            f"The authority_file {options.authority_file} of --oidc cannot be read: {error}."
        ) from error


def _secret_of(options: ProviderOptions) -> str:
    if not options.client_secret_file:
        return ""
    try:
        return Path(options.client_secret_file).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ClusterError(
            f"The client_secret_file {options.client_secret_file} of --oidc cannot be read.",
            hint="Log in with a token meanwhile.",
        ) from error


def _key_set(found: dict[str, Any]) -> KeySetSerialization:
    return {"keys": found["keys"]}
