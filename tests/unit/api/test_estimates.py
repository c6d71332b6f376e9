import asyncio
from functools import partial
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from appliance.wafer.hardware import CS2, CS3
from appliance.wafer.planner.planner import estimate
from appliance.wafer.planner.transformer import described_transformer
from tests.support.rest import described_app

GPT = Path(__file__).parents[1] / "compiler" / "programs" / "gpt.mlir"


@pytest.fixture
def ask(tmp_path):
    app = described_app(tmp_path)
    return partial(_ask, app)


def _ask(app: FastAPI, *, program: bytes | None = None, **parameters: object) -> tuple[int, dict]:
    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://here:8000") as client:
            if program is None:
                return await client.get("/api/v1/estimate", params=parameters)
            headers = {"content-type": "text/plain"}
            return await client.post(
                "/api/v1/estimate", params=parameters, content=program, headers=headers
            )

    answer = asyncio.run(send())
    return answer.status_code, answer.json()


def test_the_answer_is_the_planners(ask) -> None:
    status, got = ask(layers=12, hidden=768, systems=4, machine="cs3", tokens=1e9)
    want = estimate(
        described_transformer(layers=12, hidden=768), machine=CS3, num_systems=4, tokens=1e9
    )
    assert status == 200
    assert got["simulated_step_seconds"] == want.step.seconds
    assert got["simulated_days"] == want.days
    assert got["expected_loss"] == want.loss
    assert [point["systems"] for point in got["weak_scaling"]] == [1, 2, 4]


def test_an_encoder_decoder_is_described_as_any_other_model(ask) -> None:
    """T5 3B; what the planner says of it is held in tests/unit/wafer."""
    shape = {"hidden": 1024, "heads": 32, "head_width": 128, "ffn": 16384, "vocab": 32128}
    both = {"layers": 24, "decoder_layers": 24, "sequence": 512, "decoder_sequence": 114}
    status, got = ask(**shape, **both, systems=2)
    want = estimate(described_transformer(**shape, **both), machine=CS2, num_systems=2)
    assert status == 200
    assert got["model"] == "encoder-decoder 2.85 B"
    assert got["simulated_step_seconds"] == want.step.seconds
    assert got["expected_loss"] is None


def test_an_encoder_attends_to_everything_and_is_slower_than_a_decoder(ask) -> None:
    shape = {"layers": 12, "hidden": 768, "heads": 12, "sequence": 4096, "batch": 8}
    _, decoder = ask(**shape)
    _, encoder = ask(**shape, bidirectional=True)
    assert encoder["model"].startswith("encoder ")
    assert encoder["simulated_step_seconds"] > decoder["simulated_step_seconds"]
    status, problem = ask(**shape, decoder_sequence=10)
    assert status == 400
    assert "need a decoder" in problem["detail"]


def test_what_makes_no_sense_is_refused_with_a_reason(ask) -> None:
    assert ask(layers=12, hidden=768, machine="cs9")[0] == 400
    assert ask(layers=0, hidden=768)[0] == 422
    status, problem = ask(layers=1, hidden=1 << 20)
    assert status == 400
    assert "largest tensor" in problem["detail"]


def test_a_captured_program_is_sent_as_text(ask) -> None:
    status, got = ask(program=GPT.read_bytes(), systems=2, execution="auto")
    assert status == 200
    assert (got["batch_size"], got["systems"]) == (4, 2)
    assert got["execution"] == "pipelined"
    assert got["simulated_step_seconds"] > 0
    status, problem = ask(program=b"func @graph(")
    assert status == 400
    assert "line 1" in problem["detail"]
    assert ask(program=b"\xff\xfe")[0] == 400
