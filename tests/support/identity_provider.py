"""An identity provider: oidc-provider-mock, made to insist on PKCE, in a process of its own.

`python -m tests.support.identity_provider PORT USERS` serves it; USERS is JSON, claims by subject.
"""

import contextlib
import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from tests.support.appliance_process import wait_for
from tests.support.ports import free_port

ROOT = Path(__file__).parents[2]


@contextlib.contextmanager
def running_provider(users: dict[str, dict]) -> Iterator[str]:
    """Yield the issuer's URL of a provider that knows these users."""
    port = free_port()
    issuer = f"http://localhost:{port}"
    command = [sys.executable, "-m", __name__, str(port), json.dumps(users)]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE) as process:
        try:
            wait_for(lambda: _answers(issuer) or process.poll() is not None, what="the provider")
            assert process.poll() is None, process.stderr.read().decode()
            yield issuer
        finally:
            process.kill()


def _answers(issuer: str) -> bool:
    try:
        with urllib.request.urlopen(f"{issuer}/.well-known/openid-configuration", timeout=60):
            return True
    except OSError:
        return False


def _serve(port: int, users: dict[str, dict]) -> None:
    import oidc_provider_mock
    from authlib.oauth2.rfc7636 import CodeChallenge
    from oidc_provider_mock import _app
    from werkzeug.serving import make_server

    challenges: dict[str, tuple[str, str]] = {}

    class Challenge(CodeChallenge):
        def validate_code_challenge(self, grant, redirect_uri):
            assert grant.request.payload.data.get("code_challenge_method") == "S256", "no PKCE"
            super().validate_code_challenge(grant, redirect_uri)

        def get_authorization_code_challenge(self, authorization_code):
            return challenges[authorization_code.code][0]

        def get_authorization_code_challenge_method(self, authorization_code):
            return challenges[authorization_code.code][1]

    class Grant(_app.AuthorizationCodeGrant):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            Challenge(required=True)(self)

        def save_authorization_code(self, code, request):
            data = request.payload.data
            challenges[code] = (data["code_challenge"], data["code_challenge_method"])
            super().save_authorization_code(code, request)

    _app.AuthorizationCodeGrant = Grant
    known = [oidc_provider_mock.User(sub=sub, claims=claims) for sub, claims in users.items()]
    app = oidc_provider_mock.app(require_nonce=True, user_claims=known)
    make_server("127.0.0.1", port, app, threaded=True).serve_forever()


if __name__ == "__main__":
    _serve(int(sys.argv[1]), json.loads(sys.argv[2]))
