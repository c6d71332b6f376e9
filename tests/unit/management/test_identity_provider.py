"""Which tokens of an identity provider count, and which files name one."""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from joserfc import jwt
from joserfc.jwk import KeySet, OctKey, RSAKey

from appliance.core.clock import SystemClock
from appliance.core.errors import ClusterError, UnauthenticatedError, UserError
from appliance.management.access.identity_provider import IdentityProvider
from appliance.management.access.provider_options import ProviderOptions, read_provider_options
from tests.support.clock import FakeClock

KEY = RSAKey.generate_key(2048, {"kid": "k", "use": "sig", "alg": "RS256"})
SERVED = [KEY]
STRANGE = RSAKey.generate_key(2048, {"kid": "k"})


@pytest.fixture(scope="module")
def issuer():
    """An issuer's two documents, over HTTP."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            root = f"http://localhost:{self.server.server_port}"
            keys = KeySet(SERVED).as_dict(private=False)
            document = {"issuer": root, "jwks_uri": f"{root}/keys"}
            body = json.dumps(keys if self.path == "/keys" else document).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://localhost:{server.server_port}"
    server.shutdown()
    server.server_close()


def provider(issuer, clock=None):
    options = ProviderOptions(issuer=issuer, client_id="wafer")
    return IdentityProvider(options, "http://localhost/x", clock or SystemClock())


def token(issuer, *, key=KEY, alg="RS256", **changes):
    now = int(SystemClock().now().timestamp())
    good = {"iss": issuer, "aud": "wafer", "sub": "s", "nonce": "n", "iat": now, "exp": now + 60}
    claims = {name: value for name, value in {**good, **changes}.items() if value is not None}
    return jwt.encode({"alg": alg, "kid": "k"}, claims, key, algorithms=[alg])


def test_a_good_token_says_who_somebody_is(issuer):
    assert provider(issuer).check(token(issuer), nonce="n")["sub"] == "s"


@pytest.mark.parametrize(
    "changes",
    [
        {"iss": "https://other"},
        {"aud": "other"},
        {"aud": ["wafer", "other"]},
        {"azp": "other"},
        {"nonce": "another login's"},
        {"nonce": None},
        {"exp": 1},
        {"exp": None},
        {"sub": None},
        {"key": STRANGE},
        {"key": OctKey.import_key("what two share"), "alg": "HS256"},
    ],
    ids=lambda changes: "-".join(changes) + str(changes.get("iss", changes.get("alg", ""))),
)
def test_a_token_that_is_not_for_this_login_does_not_count(issuer, changes):
    with pytest.raises(UnauthenticatedError, match="token is not good"):
        provider(issuer).check(token(issuer, **changes), nonce="n")


def test_an_unsigned_token_does_not_count(issuer):
    head, body, _ = token(issuer).split(".")
    none = "eyJhbGciOiJub25lIn0"  # {"alg":"none"}
    for text in (f"{none}.{body}.", f"{head}.{body}.", "x", ""):
        with pytest.raises(UnauthenticatedError, match="token is not good"):
            provider(issuer).check(text, nonce="n")


def test_keys_are_asked_for_again_when_they_were_changed_but_not_at_every_bad_token(issuer):
    clock = FakeClock()
    asked = provider(issuer, clock)
    asked._load_keys()
    assert asked._forget_keys()
    clock.advance(29.5)
    assert not asked._forget_keys()
    clock.advance(0.5)
    assert asked._forget_keys()


def test_keys_are_asked_for_every_ten_minutes(issuer):
    clock = FakeClock()
    asked = provider(issuer, clock)
    keys = asked._load_keys()
    clock.advance(599.5)
    assert asked._load_keys() is keys
    clock.advance(0.5)
    assert asked._load_keys() is not keys


def test_a_key_that_was_withdrawn_counts_ten_minutes_at_most(issuer, monkeypatch):
    clock = FakeClock(SystemClock().now())
    asked = provider(issuer, clock)
    assert asked.check(token(issuer, exp=1 << 33), nonce="n")
    monkeypatch.setattr(sys.modules[__name__], "SERVED", [STRANGE])
    clock.advance(601)
    with pytest.raises(UnauthenticatedError, match="token is not good"):
        asked.check(token(issuer, exp=1 << 33), nonce="n")


@pytest.mark.parametrize("name", ["token_endpoint", "jwks_uri", "authorization_endpoint"])
def test_nothing_is_sent_without_tls_if_the_provider_has_it(name, monkeypatch):
    asked = provider("https://id.example.org")
    monkeypatch.setattr(asked, "_discover", lambda: {name: "http://id.example.org/x"})
    with pytest.raises(ClusterError, match="without TLS"):
        asked._endpoint(name)


def test_an_issuer_that_calls_itself_otherwise_is_not_asked(issuer):
    with pytest.raises(ClusterError, match="calls itself"):
        provider(issuer + "/").check("x", nonce="n")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("issuer: http://id.example.org\nclient_id: a\n", "is no https:// URL"),
        ("issuer: https://id.example.org\n", "not of the form"),
        ("issuer: https://id.example.org\nclient_id: ''\n", "names no client_id"),
        ("issuer: https://id.example.org\nclient_id: a\nscopes: [groups]\n", "lack 'openid'"),
        ("issuer: https://i\nclient_id: a\nroles: [{group: a, role: king}]\n", "not of the form"),
        ("issuer: https://i\nclient_id: a\nallowed_groups: wafer\n", "not of the form"),
        ("issuer: https://i\nclient_id: a\nredirect_uri: https://a/b\n", "does not lead to"),
        ("- a\n", "not of the form"),
        ("a: [\n", "cannot be read"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused_with_what_is_wrong(tmp_path, text, why):
    file = tmp_path / "oidc.yaml"
    file.write_text(text)
    with pytest.raises(UserError, match=why):
        read_provider_options(file)
