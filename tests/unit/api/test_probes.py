"""What probes are told, and what is said of paths that do not exist."""

import asyncio
import re
from pathlib import Path

import httpx
import pytest
from sqlalchemy.exc import OperationalError

from appliance.core.access_rules import open_paths
from appliance.dashboard.pages import install_pages
from appliance.management.store import database_check
from tests.support.rest import described_app

MAIN = Path(__file__).parents[3] / "appliance/dashboard/web/src/main.tsx"


@pytest.fixture
def ask(tmp_path):
    app = described_app(tmp_path, needs_token=True)
    install_pages(app)

    def get(path, accept="*/*"):
        async def send():
            transport = httpx.ASGITransport(app=app)
            async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
                return await client.get(path, headers={"accept": accept})

        return asyncio.run(send())

    return get


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
def test_probes_are_answered_without_a_token(ask, path):
    answer = ask(path)
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


def test_it_is_not_ready_while_the_database_does_not_answer(ask, monkeypatch):
    def refuse(database):
        raise OperationalError("SELECT 1", {}, OSError("gone"))

    monkeypatch.setattr(database_check, "_read", refuse)
    answer = ask("/readyz")
    assert answer.status_code == 503
    assert answer.json()["detail"].startswith("The appliance is not ready")
    assert ask("/livez").status_code == 200


def test_an_unknown_path_is_not_found_by_programs_nor_by_browsers(ask):
    program = ask("/anything", accept="application/json")
    assert program.status_code == 404
    assert program.headers["content-type"] == "application/problem+json"
    assert program.json()["detail"] == "There is nothing at /anything."
    browser = ask("/anything", accept="text/html,application/xhtml+xml")
    assert browser.status_code == 404
    assert "text/html" in browser.headers["content-type"]
    assert ask("/api/anything", accept="text/html").status_code == 404


def test_each_page_of_the_router_is_served_and_listed(ask):
    routed = re.findall(r'<Route path="([^"]+)"', MAIN.read_text())
    named = [path.replace("/runs/:id", "/runs/{run}").replace(":id", "{job}") for path in routed]
    assert set(named) == set(open_paths.PAGES)
    for path in open_paths.PAGES:
        assert ask(path).status_code == 200
