"""People log in at an identity provider: a real appliance and provider, a browser's requests."""

import ssl
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
import yaml

from tests.support.appliance_process import running_appliance
from tests.support.identity_provider import running_provider
from tests.support.rest import mint, rest_client

CLAIMS = {
    "ada-1": {"preferred_username": "ada", "uid": 1000, "gid": 100, "groups": ["wafer"]},
    "eve-1": {"preferred_username": "eve", "uid": 1003, "gid": 100, "groups": ["sales"]},
    "root-1": {"preferred_username": "toor", "uid": 0, "gid": 0, "groups": ["wafer"]},
    "lea-1": {"preferred_username": "lea", "uid": 1005, "gid": 1, "groups": ["wafer", "leads"]},
    "max-1": {"preferred_username": "max", "groups": ["wafer"]},
}


@pytest.fixture(scope="module")
def appliance(tmp_path_factory):
    directory = tmp_path_factory.mktemp("oidc")
    secret = directory / "secret"
    secret.write_text("of the client\n")
    with running_provider(CLAIMS) as issuer:
        file = directory / "oidc.yaml"
        text = {
            "issuer": issuer,
            "client_id": "wafer",
            "client_secret_file": str(secret),
            "shown_name": "Example",
            "allowed_groups": ["wafer"],
            "roles": [{"group": "leads", "role": "session-admin", "sessions": ["job-operator"]}],
        }
        file.write_text(yaml.safe_dump(text))
        options = ("--tls", "--tokens", "--oidc", str(file))
        with running_appliance(directory / "data", *options) as running:
            yield running


def browser_context(appliance):
    return ssl.create_default_context(cadata=appliance.authority_pem().decode())


@pytest.fixture
def browser(appliance):
    """A browser that knows the appliance's authority."""
    root = f"https://{appliance.told_cluster()['server']}"
    with httpx.Client(verify=browser_context(appliance), base_url=root, timeout=60) as client:
        yield client


def go(browser, page="/queue"):
    answer = browser.get("/api/v1/login/oidc", params={"page": page})
    assert answer.status_code == 303, answer.text
    return answer.headers["location"]


def come_back(url, subject):
    """Log in at the provider; return where it sends the browser."""
    answer = httpx.post(url, data={"sub": subject})
    assert answer.status_code == 302, answer.text
    return answer.headers["location"]


def log_in(browser, subject, **options):
    return browser.get(come_back(go(browser), subject), **options)


def test_somebody_without_an_account_logs_in_and_gets_one(appliance, browser):
    ways = browser.get("/api/v1/login").json()
    assert ways == {"needs_login": True, "provider": "Example"}
    url = go(browser)
    asked = parse_qs(urlsplit(url).query)
    assert asked["code_challenge_method"] == ["S256"]
    assert len(asked["state"][0]) == len(asked["nonce"][0]) == 43
    assert asked["redirect_uri"] == [f"{browser.base_url}/api/v1/login/oidc/callback"]
    answer = browser.get(come_back(url, "ada-1"))
    assert (answer.status_code, answer.headers["location"]) == (303, "/queue")
    cookies = answer.headers.get_list("set-cookie")
    (login,) = (each for each in cookies if each.startswith("wsc_login="))
    assert all(word in login for word in ("HttpOnly", "Secure", "SameSite=strict"))
    me = browser.get("/api/v1/me").json()
    assert (me["name"], me["uid"], me["gid"], me["role"]) == ("ada", 1000, 100, "user")
    proof = {"x-csrf-token": me["csrf_token"]}
    token = {"user": "ada", "label": "for csctl"}
    assert browser.post("/api/v1/tokens", json=token).status_code == 403
    assert browser.post("/api/v1/tokens", json=token, headers=proof).status_code == 201
    assert browser.post("/api/v1/logout", headers=proof).status_code == 204
    assert browser.get("/api/v1/me").status_code == 401


def test_groups_give_roles_and_the_audit_trail_says_so(appliance, browser):
    admin = mint(appliance, "boss", "--uid", "1009", "--role", "cluster-admin")
    mint(appliance, "lea", "--uid", "1005", "--gid", "1")
    assert log_in(browser, "lea-1").status_code == 303
    me = browser.get("/api/v1/me").json()
    assert (me["role"], me["sessions"]) == ("session-admin", ["job-operator"])
    with rest_client(appliance, admin) as rest:
        (entry,) = rest.get("audit", params={"name": "lea"}).json()["items"][:1]
        assert (entry["door"], entry["action"]) == ("oidc", "manage-users")
        tokens = rest.get("tokens", params={"user": "lea"}).json()["items"]
        (parent,) = (each for each in tokens if each["label"] == "oidc lea-1")
        assert rest.delete(f"tokens/{parent['id']}").status_code == 200
        rest.delete("users/lea")
    assert browser.get("/api/v1/me").status_code == 401


@pytest.mark.parametrize(
    ("subject", "why"),
    [
        ("eve-1", "User eve is in none of the 1 group(s) that may log in."),
        ("root-1", "User toor has uid 0"),
        ("max-1", "User max has no account here"),
        ("nobody", "names you None (claim 'preferred_username')"),
    ],
)
def test_who_may_not_log_in_is_told_why(browser, subject, why):
    answer = log_in(browser, subject)
    assert answer.status_code == 403
    assert why in answer.json()["detail"]
    assert "wsc_login=" not in answer.headers.get("set-cookie", "")
    page = log_in(browser, subject, headers={"accept": "text/html"})
    assert page.status_code == 403
    assert "<h1>Not logged in</h1>" in page.text


def test_an_answer_counts_only_in_the_browser_that_asked(appliance, browser):
    back = come_back(go(browser), "ada-1")
    with httpx.Client(verify=browser_context(appliance)) as other:
        refused = other.get(back)
        assert refused.status_code == 401
        assert "this browser has begun no login" in refused.json()["detail"]
    go(browser)  # another attempt: the first one's state no longer counts
    refused = browser.get(back)
    assert refused.status_code == 401
    assert "to another question" in refused.json()["detail"]
    back = come_back(go(browser), "ada-1")
    refused = browser.get(f"{back}&iss=https://another.example")
    assert refused.status_code == 401
    assert "of another identity provider" in refused.json()["detail"]


def test_a_code_counts_once(browser):
    back = come_back(go(browser), "ada-1")
    begun = [(each.name, each.value, each.domain, each.path) for each in browser.cookies.jar]
    assert browser.get(back).status_code == 303
    for name, value, domain, path in begun:
        browser.cookies.set(name, value, domain, path)
    refused = browser.get(back)
    assert refused.status_code == 401
    assert "refuses the login: invalid_grant" in refused.json()["detail"]


@pytest.mark.parametrize("page", ["//evil.example", "https://evil.example", "/\\evil", "queue"])
def test_nobody_is_sent_elsewhere_afterwards(browser, page):
    assert browser.get("/api/v1/login/oidc", params={"page": page}).status_code == 422


def test_an_appliance_without_a_provider_says_so(tmp_path):
    with (
        running_appliance(tmp_path / "data") as running,
        rest_client(running) as rest,
    ):
        assert rest.get("login").json() == {"needs_login": False, "provider": ""}
        assert rest.get("login/oidc").status_code == 404
