"""The planner over REST: the same numbers as `csctl estimate`."""

from typing import Annotated

from fastapi import APIRouter, Query

from appliance.api.problems import problems
from appliance.wafer.layer_timing import InputPipeline
from appliance.wafer.machine import find_machine
from appliance.wafer.planner import estimate
from appliance.wafer.report import EstimateReport, report
from appliance.wafer.transformer import described_transformer

_MAX_LAYERS = 10_000
_MAX_SYSTEMS = 100_000
_MAX_NUMBER = 1 << 40
"""Limits of what one request may make the appliance compute."""

Number = Annotated[int, Query(ge=1, le=_MAX_NUMBER)]
OptionalNumber = Annotated[int | None, Query(ge=1, le=_MAX_NUMBER)]


def estimate_router() -> APIRouter:
    """Return the router of the planner."""
    router = APIRouter(tags=["planner"])

    @router.get("/estimate", responses=problems(400))
    def get_estimate(
        *,
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
        systems: Annotated[int, Query(ge=1, le=_MAX_SYSTEMS)] = 1,
        machine: str = "cs2",
        batch: OptionalNumber = None,
        micro_batch: OptionalNumber = None,
        tokens: Annotated[float | None, Query(ge=1, le=1e18)] = None,
        workers: Annotated[int, Query(ge=1, le=_MAX_SYSTEMS)] = 1,
    ) -> EstimateReport:
        """Return what systems would do with a transformer; every time is simulated."""
        model = described_transformer(
            layers=layers,
            hidden=hidden,
            heads=heads,
            kv_heads=kv_heads,
            ffn=ffn,
            vocab=vocab,
            sequence=sequence,
            is_gated=gated,
            is_tied=not untied,
            density=density,
        )
        return report(
            estimate(
                model,
                machine=find_machine(machine),
                num_systems=systems,
                batch_size=batch,
                micro_batch=micro_batch,
                tokens=tokens,
                inputs=InputPipeline(num_workers=workers),
            )
        )

    return router
