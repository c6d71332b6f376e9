"""The planner over REST: the same numbers as `csctl estimate`."""

import threading
from typing import Annotated

from fastapi import APIRouter, Body, Query

from appliance.api.entry import Entry, enter, entry_router
from appliance.api.problems import problems
from appliance.compiler.estimation import captured_program
from appliance.core.entry_points import rules
from appliance.core.errors import UserError
from appliance.core.plans.plan import Execution
from appliance.wafer.machine import find_machine
from appliance.wafer.planner.planner import estimate
from appliance.wafer.planner.report import EstimateReport, report
from appliance.wafer.planner.transformer import described_transformer
from appliance.wafer.timing.layer_timing import InputPipeline
from appliance.wire.executions import parse_execution

_MAX_LAYERS = 10_000
_MAX_SYSTEMS = 100_000
_MAX_NUMBER = 1 << 40
_MAX_PROGRAM_BYTES = 1 << 26
"""Limits of what one request may make the appliance compute."""
_ONE_AT_A_TIME = threading.Lock()
"""Reading a program takes seconds of processor time."""

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
    @router.get("/estimate", responses=problems(400))
    def get_estimate(
        *,
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
        systems: Systems = 1,
        machine: str = "cs2",
        batch: OptionalNumber = None,
        micro_batch: OptionalNumber = None,
        tokens: Tokens = None,
        workers: Systems = 1,
        execution: str = Execution.WEIGHT_STREAMING.value,
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
                execution=parse_execution(execution),
            )
        )


def _serve_programs(router: APIRouter) -> None:
    @router.post("/estimate", responses=problems(400))
    def estimate_program(
        *,
        entry: Annotated[Entry, enter(rules.ESTIMATE)],
        program: Annotated[bytes, Body(media_type="text/plain")],
        systems: Systems = 1,
        machine: str = "cs2",
        batch: OptionalNumber = None,
        micro_batch: OptionalNumber = None,
        tokens: Tokens = None,
        workers: Systems = 1,
        execution: str = Execution.WEIGHT_STREAMING.value,
    ) -> EstimateReport:
        """Return what systems would do with a program that a client's `validate_only` run left.

        The body is the text of its `cirh.mlir`; the batch is the one it was traced with unless
        another is given.
        """
        with _ONE_AT_A_TIME:
            captured = captured_program(_text(program), name="program")
        return report(
            estimate(
                captured.step,
                machine=find_machine(machine),
                num_systems=systems,
                batch_size=batch or captured.batch_size,
                micro_batch=micro_batch,
                tokens=tokens,
                inputs=InputPipeline(num_workers=workers),
                execution=parse_execution(execution),
            )
        )


def _text(program: bytes) -> str:
    if len(program) > _MAX_PROGRAM_BYTES:
        raise UserError(
            f"The program has {len(program):,} bytes; {_MAX_PROGRAM_BYTES:,} can be sent.",
            hint="Use csctl estimate --program on your own machine.",
        )
    try:
        return program.decode()
    except UnicodeDecodeError as error:
        raise UserError(f"The program is no text: {error}.") from error
