"""What is tried over HTTP."""

import contextlib
import json
import os
import socket
import struct
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

from tests.attack.targets import Target

_FORGED = (
    {"X-Forwarded-For": "127.0.0.1:{port}"},
    {"X-Forwarded-For": "127.0.0.1"},
    {"X-Forwarded-For": "127.0.0.1:{port}, 127.0.0.1:{port}"},
    {"Forwarded": 'for="127.0.0.1:{port}";proto=https;by=127.0.0.1'},
    {"X-Real-IP": "127.0.0.1", "X-Real-Port": "{port}"},
    {"X-Client-IP": "127.0.0.1:{port}", "X-Forwarded-Proto": "https"},
    {"X-Forwarded-User": "root", "X-Remote-User": "root", "Remote-User": "root"},
    {"auth-uid": "0", "auth-gid": "0", "auth-username": "root"},
    {"Cookie": "wsc_token=root; session=root; token=root"},
    {"X-HTTP-Method-Override": "GET", "X-Forwarded-Host": "localhost"},
)
_DEADLINE_SECONDS = 20


def _forged(target: Target) -> list[dict[str, str]]:
    port = str(target.held_port)
    return [{k: v.format(port=port) for k, v in headers.items()} for headers in _FORGED]


def headers_make_nobody_root(target: Target) -> str:
    """Names root's connection, or root, in every header that proxies use."""
    for headers in _forged(target):
        status, text = target.request("GET", "/api/v1/me", headers=headers)
        if status == 200 and json.loads(text).get("name") != target.name:
            return f"{headers} is {json.loads(text).get('name')!r}"
        if status == 200 and not target.name:
            return f"{headers} is served"
    return ""


def headers_start_nothing(target: Target) -> str:
    """Starts a detached run that writes a file, as root by such headers."""
    for headers in _forged(target):
        if found := _started(target, headers):
            return found
    return ""


def _started(target: Target, headers: dict[str, str]) -> str:
    body = {"argv": ["true"], "work_dir": "/tmp", "environment": {}, "labels": {}}
    status, text = target.request("POST", "/api/v1/jobs/detached", headers=headers, body=body)
    if not 200 <= status < 300:
        return ""
    if not target.name:
        return f"{headers}: {status} for nobody"
    job = json.loads(text).get("id") or json.loads(text).get("job_id", "")
    _, told = target.request("GET", f"/api/v1/jobs/{job}")
    target.request("POST", f"/api/v1/jobs/{job}/cancel")
    user = json.loads(told).get("user")
    return "" if user in (target.name, None) else f"{headers}: a job of {user!r}"


def a_job_of_another_is_not_ended(target: Target) -> str:
    """Ends, holds, renames or deletes root's job, or reads what is not for all."""
    job = f"/api/v1/jobs/{target.job}"
    tries = (
        ("POST", f"{job}/cancel", {}),
        ("POST", f"{job}/hold", {}),
        ("POST", f"{job}/requeue", {}),
        ("PATCH", job, {"priority": "p1", "labels": {"a": "b"}}),
        ("DELETE", job, None),
        ("GET", f"{job}/configuration", None),
        ("GET", f"{job}/logs", None),
        ("GET", f"{job}/logs/coordinator-0", None),
        ("POST", f"{job}/log-exports", {"tasks": ["coordinator"], "num_lines": 3}),
    )
    for method, path, body in tries:
        status, text = target.request(method, path, body=body)
        if 200 <= status < 300 and not (method == "GET" and text in ("[]", "{}")):
            return f"{method} {path}: {status} {text[:80]}"
    return ""


OF_ADMINISTRATORS = (
    ("GET", "/api/v1/audit", None),
    ("GET", "/api/v1/users", None),
    ("POST", "/api/v1/users", {"name": "eve", "uid": 0, "gid": 0, "role": "cluster-admin"}),
    ("POST", "/api/v1/tokens", {"user": "root", "label": "x", "days": 1}),
    ("POST", "/api/v1/sessions", {"name": "eve", "num_systems": 1}),
    ("PATCH", "/api/v1/systems/systemf0", {"state": "drain", "notes": "x"}),
    ("PUT", "/api/v1/cluster/file", {}),
    ("POST", "/api/v1/maintenance", {"systems": ["systemf0"], "seconds": 60, "notes": "x"}),
)
"""Requests that an administrator may make, and whose bodies are right."""


def administrators_routes_are_theirs(target: Target) -> str:
    """Reads and changes users, tokens, sessions, systems and the audit trail."""
    for method, path, body in OF_ADMINISTRATORS:
        status, text = target.request(method, path, body=body)
        if 200 <= status < 300:
            return f"{method} {path}: {status} {text[:80]}"
    return ""


def pages_of_other_sites_are_refused(target: Target) -> str:
    """A page of another site, in the browser of whom the appliance serves, posts and rebinds."""
    local = urlsplit(target.rest).netloc
    pages = (
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": f"https://{local}.evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Origin": "http://localhost:1"},
    )
    for headers in pages:
        status, _ = target.request(
            "POST", f"/api/v1/jobs/{target.job}/hold", headers=headers, body={}
        )
        if 200 <= status < 300:
            return f"POST with {headers}: {status}"
    if target.pem:
        return ""
    status, _ = target.request("GET", "/api/v1/me", headers={"Host": "evil.example"})
    return f"GET for evil.example: {status}" if status == 200 else ""


def a_login_is_of_no_other_browser(target: Target) -> str:
    """Sends the cookie of root's browser, which it sends to every port of this machine."""
    if not target.login:
        return ""
    status, text = target.request("GET", "/api/v1/me", headers={"Cookie": target.login})
    found = json.loads(text).get("name") if status == 200 else ""
    return f"is {found!r}" if found and found != target.name else ""


def no_path_leads_out(target: Target) -> str:
    """Asks the server of the pages for files that are no pages."""
    out = "/".join([".."] * 12) + "/etc/passwd"
    for path in (
        *(f"/{out}", f"/{out.replace('..', '%2e%2e')}", f"/{out.replace('/', '%2f')}"),
        *(f"/static/{out}", f"/assets/{out}", f"//{out}", "/etc/passwd", "/%00/etc/passwd"),
        *(f"/{out}".replace("/", "\\"), f"/api/v1/jobs/{out.replace('/', '%2f')}/logs/x"),
        *(f"/api/v1/jobs/{target.job}/logs/{out.replace('/', '%2f')}",),
    ):
        _, text = target.request("GET", path)
        if "root:" in text and "/bin/" in text:
            return f"GET {path}"
    return ""


def a_reset_connection_runs_nothing(target: Target) -> str:
    """Sends many requests at once on one connection, all to be refused, and resets it."""
    if target.name and not target.pem:
        return ""  # may run what it asks for, as itself
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o777)
        for number in range(3):
            _send_and_reset(target, Path(directory) / f"{number}")
        deadline = time.monotonic() + 3
        while time.monotonic() < deadline:
            for path in Path(directory).iterdir():
                if path.stat().st_uid != os.getuid():
                    return f"{path.stat().st_uid} wrote what {os.getuid()} asked for"
            time.sleep(0.2)  # noqa: TID251 - what has been started takes real time
    return ""


def _send_and_reset(target: Target, path: Path) -> None:
    body = json.dumps({"argv": ["touch", str(path)], "work_dir": "/tmp", "environment": {}})
    host = urlsplit(target.rest).netloc
    head = f"POST /api/v1/jobs/detached HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json"
    request = f"{head}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
    with contextlib.suppress(OSError), target.connect() as connection:
        connection.settimeout(_DEADLINE_SECONDS)
        connection.sendall(request * 40)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


_AMBIGUOUS = (
    ("two lengths", "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n"),
    ("two hosts", "Host: localhost\r\n"),
    ("a line that goes on", "X-A: b\r\n Host: localhost\r\n"),
    ("a bare line feed", "X-A: b\nX-C: d\r\n"),
)


def no_request_hides_in_another(target: Target) -> str:
    """Sends what a proxy before us may read differently, and a request behind it."""
    host = urlsplit(target.rest).netloc
    behind = f"GET /healthz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    for name, lines in (("", "Content-Length: 5\r\n"), *_AMBIGUOUS):
        with target.connect() as connection:
            connection.settimeout(_DEADLINE_SECONDS)
            head = f"POST /api/v1/logout HTTP/1.1\r\nHost: {host}\r\n{lines}\r\n"
            connection.sendall(f"{head}0\r\n\r\n{behind}".encode())
            answered = _received(connection).count(b"HTTP/1.1 ")
        if answered > 1 and name:
            return f"{name}: {answered} requests are answered"
        if answered < 2 and not name:
            return "nor is a plain request behind another: the attack is not made"
    return ""


def _received(connection: socket.socket) -> bytes:
    received = b""
    with contextlib.suppress(OSError):
        while data := connection.recv(1 << 16):
            received += data
    return received


WEB = (
    no_request_hides_in_another,
    headers_make_nobody_root,
    headers_start_nothing,
    a_job_of_another_is_not_ended,
    administrators_routes_are_theirs,
    a_login_is_of_no_other_browser,
    no_path_leads_out,
    a_reset_connection_runs_nothing,
)
OF_PAGES = (pages_of_other_sites_are_refused,)
