"""Which answers are compressed, and which stay as they are."""

import asyncio
import gzip
import threading
from types import SimpleNamespace

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from appliance.api.compression import Compression

LONG = {"words": "wafer " * 500}
LONGER = {"words": "wafer " * 50_000}


async def long(request):
    return JSONResponse(LONG, headers={"etag": '"7"'})


async def longer(request):
    return JSONResponse(LONGER)


async def events(request):
    async def lines():
        yield b"data: wafer\n\n" * 200

    return StreamingResponse(lines(), media_type="text/event-stream")


APP = Starlette(
    routes=[
        Route("/long", long, methods=["GET", "POST"]),
        Route("/longer", longer),
        Route("/api/v1/me", long),
        Route("/short", lambda request: JSONResponse({"a": 1})),
        Route("/bytes", lambda request: Response(b"x" * 5000, media_type="application/gzip")),
        Route("/events", events),
    ]
)
APP.add_middleware(Compression)


def ask(path, *, method="GET", accepts="gzip, br"):
    async def send():
        transport = httpx.ASGITransport(app=APP)
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            return await client.request(method, path, headers={"accept-encoding": accepts})

    return asyncio.run(send())


def test_a_long_answer_is_compressed_and_reads_the_same():
    answer = ask("/long")
    assert answer.headers["content-encoding"] == "gzip"
    assert int(answer.headers["content-length"]) < 200
    assert answer.headers["vary"].lower() == "accept-encoding"
    assert answer.headers["etag"] == '"7"'
    assert answer.json() == LONG


def test_the_event_loop_goes_on_while_a_long_body_is_compressed(monkeypatch):
    threads = {}

    def compress(body, **options):
        threads[len(body)] = threading.current_thread()
        return gzip.compress(body, **options)

    monkeypatch.setattr("appliance.api.compression.gzip", SimpleNamespace(compress=compress))
    assert ask("/longer").json() == LONGER
    assert ask("/long").json() == LONG
    (short, here), (_, elsewhere) = sorted(threads.items())
    assert short < 1 << 16
    assert here is threading.main_thread()
    assert elsewhere is not threading.main_thread()


@pytest.mark.parametrize(
    ("path", "options"),
    [
        ("/long", {"accepts": "identity"}),
        ("/long", {"method": "POST"}),
        ("/api/v1/me", {}),  # carries the proof of a login
        ("/short", {}),
        ("/bytes", {}),
        ("/events", {}),
    ],
)
def test_others_are_left_as_they_are(path, options):
    answer = ask(path, **options)
    assert "content-encoding" not in answer.headers
    assert answer.status_code == 200
