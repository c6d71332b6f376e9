"""What the probes of a container take for well."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.support.ports import free_port

HEALTHY = Path(__file__).parents[3] / "deploy/containers/healthy"


class Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/healthz" else 503)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{listening.server_port}"
        listening.shutdown()


def is_healthy(*arguments: str) -> bool:
    command = [sys.executable, "-I", "-S", str(HEALTHY), *arguments]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


def test_no_proxy_is_asked(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    assert is_healthy(f"--url={server}/healthz")
    assert not is_healthy(f"--url={server}/down")


def nowhere() -> str:
    return f"--url=http://127.0.0.1:{free_port()}/healthz"


def test_one_that_serves_is_well_by_every_probe(server: str, tmp_path: Path) -> None:
    for word in ([], ["--alive"], [f"--standby={tmp_path / 'none'}"]):
        assert is_healthy(f"--url={server}/healthz", *word)


def test_one_that_answers_with_an_error_is_not_well(server: str) -> None:
    assert not is_healthy(f"--url={server}/down")
    assert not is_healthy(f"--url={server}/down", "--alive")


def test_one_that_listens_nowhere_is_alive_and_not_ready(tmp_path: Path) -> None:
    assert is_healthy(nowhere(), "--alive")
    assert not is_healthy(nowhere())
    assert not is_healthy(nowhere(), f"--standby={tmp_path / 'none'}")


@pytest.mark.parametrize(
    ("text", "is_ready"),
    [("in time", True), ("late", False), ("0.0", False), ("", False), ("garbled", False)],
)
def test_one_that_waits_is_ready_beside_a_live_leader_alone(
    tmp_path: Path, text: str, is_ready: bool
) -> None:
    now = time.monotonic()
    moments = {"in time": str(now + 600), "late": str(now - 1)}
    (tmp_path / "standby").write_text(moments.get(text, text))
    assert is_healthy(nowhere(), f"--standby={tmp_path / 'standby'}") is is_ready
