"""REST requests near right ones: every route, with texts that break what is careless with them."""

import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import quote

from tests.fuzz.mutation import NASTY, nasty_json

BODIES: Mapping[str, object] = {
    "PATCH /api/v1/jobs/{job_id}": {"priority": "p1", "labels": {"team": "a", "x": None}},
    "POST /api/v1/jobs/detached": {
        "argv": ["true"],
        "work_dir": "/tmp",
        "environment": {"HOME": "/tmp"},
        "labels": {"a": "b"},
        "restart": {"on": ["pod"], "limit": 1},
    },
    "POST /api/v1/jobs/{job_id}/log-exports": {"tasks": ["coordinator"], "num_lines": 3},
    "POST /api/v1/queue/plan": {"num_systems": 1, "session": "", "priority": 299},
    "POST /api/v1/sessions": {"name": "team", "num_systems": 1},
    "PATCH /api/v1/sessions/{name}": {"is_paused": False, "num_systems": 1},
    "PATCH /api/v1/systems/{name}": {"state": "up", "notes": "x"},
    "POST /api/v1/maintenance": {"systems": ["systemf0"], "seconds": 60, "notes": "x"},
    "POST /api/v1/users": {"name": "bob", "uid": 1234, "gid": 1, "role": "user", "sessions": []},
    "PATCH /api/v1/users/{name}": {"role": "user", "sessions": ["a"], "is_blocked": False},
    "POST /api/v1/tokens": {"user": "bob", "label": "x", "days": 1},
    "POST /api/v1/login": {"token": "a.b.c"},
}
"""A right body of each route that takes one."""

_TEXTS = {
    "PUT /api/v1/cluster/file": "systems:\n  - {count: 2}\n",
    "POST /api/v1/estimate": "module { func.func @graph() { return } }",
}
_NAMES = ("systemf0", "job-operator", "ada", "coordinator-0", "root", "wsjob-1")
_HEADERS = (
    *("if-match", "last-event-id", "cookie", "accept", "x-csrf-token", "origin", "range"),
    *("accept-encoding", "authorization", "if-modified-since", "x-forwarded-for", "forwarded"),
)
_OF_HEADERS = ("http://[", "[::1", "bytes=9-1,-0,", "gzip;q=x", "Bearer ..", "for=[;;=", '"', "\\")
"""What is careless with a header breaks by these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A request."""

    method: str
    url: str
    content: bytes
    headers: Mapping[str, str]


def cases(document: Mapping[str, object], job: str, num: int, *, seed: int) -> Iterator[Case]:
    """Yield so many requests over all operations of an OpenAPI document, in turn."""
    rng = random.Random(seed)
    operations = [
        (method.upper(), path, operation)
        for path, methods in sorted(document["paths"].items())
        for method, operation in sorted(methods.items())
        if not path.endswith("/stream")  # has no end
    ]
    for number in range(num):
        yield _case(rng, *operations[number % len(operations)], job)


def _case(rng: random.Random, method: str, path: str, operation, job: str) -> Case:
    query = []
    url = path
    headers = {"content-type": "application/json"}
    for parameter in operation.get("parameters", ()):
        name, place = parameter["name"], parameter["in"]
        if place == "path":
            url = url.replace(f"{{{name}}}", _quoted(_word(rng, job)))
        elif place == "query" and (parameter.get("required") or rng.random() < 0.4):
            query.append(f"{name}={_quoted(_value(rng, job))}")
    for name in _HEADERS:
        if rng.random() < 0.05:
            headers[name] = _ascii(rng.choice((*NASTY, *_OF_HEADERS)))
    content = _content(rng, f"{method} {path}")
    if f"{method} {path}" in _TEXTS:
        headers["content-type"] = "text/plain"
    return Case(
        method=method,
        url=url + ("?" + "&".join(query) if query else ""),
        content=content,
        headers=headers,
    )


def _content(rng: random.Random, route: str) -> bytes:
    if route in BODIES:
        text = json.dumps(nasty_json(rng, BODIES[route]))
        return text.encode() if rng.random() < 0.95 else text.encode()[: rng.randrange(30)]
    if route in _TEXTS:
        text = _TEXTS[route].replace(" ", rng.choice((" ", rng.choice(NASTY))), 1)
        return text.encode(errors="surrogatepass")
    return b""


def _word(rng: random.Random, job: str) -> str:
    return job if rng.random() < 0.4 else rng.choice((*_NAMES, *NASTY))[:3000]


def _value(rng: random.Random, job: str) -> str:
    numbers = ("0", "1", "2", "3", "7", "100")
    return rng.choice((job, *numbers, *numbers, *_NAMES, *NASTY))[:3000]


def _quoted(text: str) -> str:
    return quote(text.encode(errors="surrogatepass"), safe="")


def _ascii(text: str) -> str:
    return "".join(character for character in text[:200] if " " <= character <= "~")
