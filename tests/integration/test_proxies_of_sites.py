"""A cluster's pods may be told of a proxy that leads out of the site; nothing within asks it.

The proxy is real, and keeps what it is asked for.
"""

import http.server
import json
import threading
import urllib.request
from pathlib import Path

import pytest

from appliance.cluster.kubernetes import api
from appliance.cluster.kubernetes.api import ApiServer
from appliance.cluster.kubernetes.hooks.trial import unanswered

VERSION = {"major": "1", "minor": "36"}
NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY", "all_proxy")


class Told(http.server.ThreadingHTTPServer):
    """Answers everybody, and keeps what was asked."""

    def __init__(self, answer: object) -> None:
        self.answer, self.asked = json.dumps(answer).encode(), list[str]()
        super().__init__(("127.0.0.1", 0), Answer)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Answer(http.server.BaseHTTPRequestHandler):
    server: Told

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.server.answer)))
        self.end_headers()
        self.wfile.write(self.server.answer)

    def do_CONNECT(self) -> None:
        self.server.asked.append(self.path)
        self.send_error(502)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def proxy(monkeypatch):
    with Told({"status": "of the proxy"}) as proxy:
        for name in NAMES:
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.server_port}")
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        # Of a process the first `urlopen` keeps the proxies of its environment for all others.
        monkeypatch.setattr("urllib.request._opener", None)
        yield proxy
        proxy.shutdown()


@pytest.fixture
def in_a_pod(tmp_path, monkeypatch):
    """Be where a pod's service account is found."""
    (tmp_path / "token").write_text("secret")
    (tmp_path / "namespace").write_text("wafer\n")
    monkeypatch.setattr(api, "_SERVICE_ACCOUNT", tmp_path)
    monkeypatch.setattr(api, "_TOKEN", tmp_path / "token")


def connected(monkeypatch, server: Told) -> ApiServer:
    """Return the API server as a pod finds it; ours talks plain text."""

    def load(settings: object) -> None:
        settings.host = f"http://127.0.0.1:{server.server_port}"  # which looks for a proxy anew

    monkeypatch.setattr("kubernetes.config.load_incluster_config", load)
    return ApiServer.connect()


@pytest.mark.usefixtures("in_a_pod")
def test_the_api_server_is_asked_directly(proxy, monkeypatch):
    with Told(VERSION) as server:
        found = connected(monkeypatch, server)
        assert found.version() == (1, 36)
        assert found.namespace == "wafer"
        assert server.asked == ["/version"]
        found.close()
        server.shutdown()
    assert proxy.asked == []


def test_the_chart_s_test_asks_the_appliance_directly(proxy):
    with Told({"status": "ok"}) as server:
        url = f"http://127.0.0.1:{server.server_port}/healthz"
        assert unanswered(url, Path("/etc/ssl/certs/ca-certificates.crt")) == ""
        server.shutdown()
    assert proxy.asked == []


def test_the_proxy_is_one(proxy):
    """Who does not take care asks it."""
    with urllib.request.urlopen("http://wafer.svc:9000/healthz", timeout=60) as answer:
        assert json.load(answer) == {"status": "of the proxy"}
    assert proxy.asked == ["http://wafer.svc:9000/healthz"]
