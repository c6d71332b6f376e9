"""The planner over REST: the same numbers as `csctl estimate`.

Each question is answered in a separate process (`management.background.estimates`).
"""

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Body, Query, Request
from fastapi.responses import Response

from appliance.api.entry import Entry, enter, entry_router
from appliance.api.problems import problems
from appliance.api.services import Services
from appliance.core.access_rules import rules
from appliance.core.plans.plan import Execution
from appliance.management.background.estimates import Estimates
from appliance.wafer.planner.report import EstimateReport

_MAX_LAYERS = 10_000
_MAX_SYSTEMS = 100_000
_MAX_NUMBER = 1 << 40
"""Limits of what one request may make the appliance compute."""
_JSON = "application/json"

Number = Annotated[int, Query(ge=1, le=_MAX_NUMBER)]
OptionalNumber = Annotated[int | None, Query(ge=1, le=_MAX_NUMBER)]
Systems = Annotated[int, Query(ge=1, le=_MAX_SYSTEMS)]
Tokens = Annotated[float | None, Query(ge=1, le=1e18)]


def estimate_router() -> APIRouter:
    """Return the router of the planner."""
    router = entry_router("planner")
    _serve_descriptions(router)
    _serve_programs(router)
    return router


def _serve_descriptions(router: APIRouter) -> None:
    @router.get("/estimate", responses=problems(400), response_model=EstimateReport)
    async def get_estimate(
        *,
        request: Request,
        services: Services,
        entry: Annotated[Entry, enter(rules.ESTIMATE)],
        layers: Annotated[int, Query(ge=1, le=_MAX_LAYERS)],
        hidden: Number,
        heads: OptionalNumber = None,
        kv_heads: OptionalNumber = None,
        ffn: OptionalNumber = None,
        vocab: Annotated[int, Query(ge=0, le=_MAX_NUMBER)] = 50257,
        sequence: Number = 2048,
        gated: bool = False,
        untied: bool = False,
        density: float = 1.0,
        sparsity: float | None = None,
        bidirectional: bool = False,
        head_width: OptionalNumber = None,
        decoder_layers: Annotated[int, Query(ge=0, le=_MAX_LAYERS)] = 0,
        decoder_sequence: OptionalNumber = None,
        lora_rank: Annotated[int, Query(ge=0, le=_MAX_NUMBER)] = 0,
        evaluation: bool = False,
        systems: Systems = 1,
        machine: str = "cs2",
        batch: OptionalNumber = None,
        micro_batch: OptionalNumber = None,
        tokens: Tokens = None,
        workers: Systems = 1,
        execution: str = Execution.WEIGHT_STREAMING.value,
    ) -> Response:
        """Return what systems would do with a transformer; every time is simulated.

        A decoder unless it is `bidirectional` (an encoder such as BERT) or has `decoder_layers`
        (an encoder-decoder such as T5, whose `layers` and `sequence` are the encoder's). With a
        `lora_rank` adapters alone are trained, in an `evaluation` nothing.
        """
        run = {"systems": systems, "machine": machine, "batch": batch, "micro_batch": micro_batch}
        rest = {"tokens": tokens, "workers": workers, "execution": execution}
        layer = {"hidden": hidden, "heads": heads, "kv_heads": kv_heads, "ffn": ffn}
        question = {
            "model": {
                "layers": layers,
                **layer,
                "vocab": vocab,
                "sequence": sequence,
                "is_gated": gated,
                "is_tied": not untied,
                "density": density,
                "sparsity": sparsity,
                "is_causal": not bidirectional,
                "head_width": head_width,
                "decoder_layers": decoder_layers,
                "decoder_sequence": decoder_sequence,
                "lora_rank": lora_rank,
                "is_evaluation": evaluation,
            },
            **run,
            **rest,
        }
        return await _answer(request, services.estimates, question)


def _serve_programs(router: APIRouter) -> None:
    @router.post("/estimate", responses=problems(400), response_model=EstimateReport)
    async def estimate_program(
        *,
        request: Request,
        services: Services,
        entry: Annotated[Entry, enter(rules.ESTIMATE)],
        program: Annotated[bytes, Body(media_type="text/plain")],
        systems: Systems = 1,
        machine: str = "cs2",
        batch: OptionalNumber = None,
        micro_batch: OptionalNumber = None,
        tokens: Tokens = None,
        workers: Systems = 1,
        execution: str = Execution.WEIGHT_STREAMING.value,
    ) -> Response:
        """Return what systems would do with a program that a client's `validate_only` run left.

        The body is the text of its `cirh.mlir`; the batch is the one it was traced with unless
        another is given.
        """
        question = {
            "systems": systems,
            "machine": machine,
            "batch": batch,
            "micro_batch": micro_batch,
            "tokens": tokens,
            "workers": workers,
            "execution": execution,
        }
        return await _answer(request, services.estimates, question, program)


# `Any`: a question is JSON.
async def _answer(
    request: Request, estimates: Estimates, question: Mapping[str, Any], program: bytes = b""
) -> Response:
    """Return the planner's report, unless the asker leaves before it is there."""
    asking = asyncio.create_task(estimates.ask(question, program))
    leaving = asyncio.create_task(_left(request))
    try:
        await asyncio.wait((asking, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not asking.done():
            return Response(status_code=204)  # nobody is there to read it
        return Response(await asking, media_type=_JSON)
    finally:
        leaving.cancel()
        asking.cancel()


async def _left(request: Request) -> None:
    """Return once the asker has closed the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
