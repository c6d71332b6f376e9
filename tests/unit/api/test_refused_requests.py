"""What a caller must not send is refused by the status that says so, never by 500."""

import asyncio
import os

import httpx
import pytest

from appliance.api.entry import queries_of
from appliance.api.job_routes.jobs import router
from appliance.core.access_rules.model import ALLOWANCES, Cost
from appliance.core.cluster.access import UserRole
from appliance.core.errors import UserError
from tests.support.rest import described_app

JSON = {"content-type": "application/json"}


class Rest:
    """The application, called without a network."""

    def __init__(self, app):
        self.app = app

    def __call__(self, method, path, **parts):
        async def send():
            transport = httpx.ASGITransport(app=self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
                return await client.request(method, path, **parts)

        return asyncio.run(send())


@pytest.fixture
def rest(tmp_path):
    return Rest(described_app(tmp_path, needs_token=True))


@pytest.mark.parametrize(
    "body",
    [
        rb'{"token": "\ud800"}',
        rb'{"\udfff": 1, "token": "a"}',
        rb'{"token": {"a": ["\ud83d", "\ude00"]}}',
    ],
)
def test_half_of_a_character_is_refused_before_anybody_reads_it(rest, body):
    answer = rest(
        "POST", "/api/v1/login", content=body, headers={"content-type": "application/json"}
    )
    assert answer.status_code == 400, answer.text
    assert "surrogate" in answer.json()["detail"]


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 20_000 + b"]" * 20_000,
        b'{"user":' * 9_000 + b"1" + b"}" * 9_000,
        b'{"user": "ada", "days": NaN}',
        b'{"user": "ada", "days": Infinity}',
        b'{"user": "ada", "days": ' + b"9" * 5000 + b"}",
    ],
    ids=["deep lists", "deep objects", "NaN", "infinity", "digits"],
)
def test_json_of_any_form_is_refused_and_breaks_nothing(tmp_path, body):
    rest = Rest(described_app(tmp_path, needs_token=False))
    answer = rest("POST", "/api/v1/tokens", content=body, headers=JSON)
    assert answer.status_code in (400, 413, 422), answer.text


@pytest.mark.parametrize(
    "origin", ["http://[", "http://]", "http://[::1", "http://[here]", "http://", "[", "", "null"]
)
def test_what_is_no_origin_is_no_origin_of_ours(rest, origin):
    answer = rest("POST", "/api/v1/login", json={"token": "a"}, headers={"origin": origin})
    assert answer.status_code == 403, answer.text
    assert "comes from a page" in answer.json()["detail"]


def test_a_whole_character_is_text_however_it_is_spelled(rest):
    answer = rest(
        "POST",
        "/api/v1/login",
        content=rb'{"token": "\ud83d\ude00"}',
        headers=JSON,
    )
    assert answer.status_code == 401


def test_an_error_whose_sentence_cannot_be_sent_is_sent_escaped(rest):
    @rest.app.get("/raises")
    def raises():
        raise UserError("Label \ud800 is not valid.", hint="\udfff")

    answer = rest("GET", "/raises")
    assert answer.status_code == 400
    assert answer.json()["detail"] == "Label \\ud800 is not valid."


def test_wrong_logins_are_soon_told_to_wait(rest):
    burst = ALLOWANCES[Cost.WRONG_TOKEN].burst
    statuses = [rest("POST", "/api/v1/login", json={"token": "guess"}) for _ in range(60)]
    assert [each.status_code for each in statuses[:burst]] == [401] * burst
    late = statuses[-1]
    assert late.status_code == 429
    assert 1 <= int(late.headers["retry-after"]) <= 5
    bearer = {"authorization": "Bearer guess"}
    assert rest("GET", "/api/v1/me", headers=bearer).status_code == 429


def test_a_query_parameter_that_a_route_does_not_have_is_refused(rest):
    answer = rest("GET", "/api/v1/login", params={"lable": "a=b"})
    assert answer.status_code == 422
    assert "query.lable: there is no such parameter here. There is: none" in answer.text


def test_every_list_takes_the_parameters_that_it_describes(rest):
    # What its own dependencies take counts as well.
    (route,) = (each for each in router.routes if each.path == "/jobs")
    described = rest.app.openapi()["paths"]["/api/v1/jobs"]["get"]["parameters"]
    assert {each["name"] for each in described} == set(queries_of(route.dependant))


def test_an_identity_provider_may_answer_with_more_than_is_asked_for(rest):
    answer = rest("GET", "/api/v1/login/oidc/callback", params={"session_state": "x"})
    assert answer.status_code != 422


@pytest.fixture
def login(rest):
    """Return the text of a browser's login of an administrator."""
    access = rest.app.state.services.access
    access.create_account("ada", uid=1000, gid=100, role=UserRole.CLUSTER_ADMIN)
    return access.tokens.log_in(access.tokens.mint("ada").text, os.geteuid()).text


BESIDE_A_LOGIN = (
    ("", ""),
    ('a"b; ', ""),
    ("a[b=1; ", ""),
    ("a b=c; ", ""),
    ("=; ", ""),
    ("nameless; ", ""),
    ("expires=; path; ", ""),
    ('a="x; ', '; b="'),
    ("wsc_login=other; ", ""),
)
"""Cookies; another service of the same host may set what it likes."""


def test_no_cookie_or_header_beside_a_login_spares_it_its_proof(rest, login):
    user = {"name": "eve", "uid": 1001, "gid": 1001}
    for before, after in BESIDE_A_LOGIN:
        cookie = {"cookie": f"{before}wsc_login={login}{after}"}
        for other in ({}, *({"authorization": each} for each in ("Basic YTpi", "x", "bearer"))):
            answer = rest("POST", "/api/v1/users", json=user, headers={**cookie, **other})
            assert answer.status_code == 403, (before, after, other, answer.text)
            assert "lacks the header x-csrf-token" in answer.json()["detail"]


def test_a_login_changes_things_with_the_proof_that_it_is_told(rest, login):
    headers = {"cookie": f'a"b; wsc_login={login}'}
    proof = rest("GET", "/api/v1/me", headers=headers).json()["csrf_token"]
    user = {"name": "eve", "uid": 1001, "gid": 1001}
    headers["x-csrf-token"] = proof
    assert rest("POST", "/api/v1/users", json=user, headers=headers).status_code == 201
