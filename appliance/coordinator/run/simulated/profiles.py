"""The client's op profiler: which steps it asked for, and the trace that answers it.

The client adds up the spans by name for its table of the most expensive modules, leaving out names
with " = ", and takes the end of the last span as the total time. So spans that enclose others have
such names and precede what they enclose. Times are simulated, in microseconds, as in Chrome's trace
format, which the client writes.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from appliance.core.errors import UserError
from appliance.core.plans.output_titles import output_titles
from appliance.core.plans.plan import Plan
from appliance.files.profiles import keep_output_titles, keep_profile, keep_wafer_picture
from appliance.wafer.hardware import Machine
from appliance.wafer.timing.grid import wafer_picture
from appliance.wafer.timing.program_operations import program_step
from appliance.wafer.timing.step_profile import Span, SpanKind, run_spans
from appliance.wafer.timing.system_timing import plan_timing
from protos.appliance.appliance_service_pb2 import FinalizeResponse, LoadRequest

_MICROSECONDS = 1e6
_EVENT_TYPES = {
    SpanKind.STEP: FinalizeResponse.EventTrace.STEP,
    SpanKind.MICRO_BATCH: FinalizeResponse.EventTrace.MBATCH,
    SpanKind.LAYER_STEP: FinalizeResponse.EventTrace.OP,
}


def profiled_steps(request: LoadRequest) -> range:
    """Return the numbers (from 1) of the steps to profile; empty if none was asked for.

    Raises:
        UserError: The range runs backwards or begins before the first step.
    """
    if not request.HasField("op_profiler_config"):
        return range(0)
    config = request.op_profiler_config
    if not 1 <= config.start_step <= config.end_step:
        raise UserError(
            f"Steps {config.start_step} to {config.end_step} cannot be profiled.",
            hint="Begin at step 1 or later, and end no earlier than that.",
        )
    return range(config.start_step, config.end_step + 1)


def profile(
    plan: Plan,
    steps: range,
    *,
    machine: Machine,
    num_systems: int,
    densities: Mapping[str, float] | None = None,
) -> list[FinalizeResponse.EventTrace]:
    """Return the trace of some steps of a plan; all systems go in step, so it holds for each.

    Args:
        plan: What was run.
        steps: The steps, those alone that were completed.
        machine: What each system is.
        num_systems: How many.
        densities: Of what layer steps load and send by its non-zeros.
    """
    if not steps or not plan.layer_steps:
        return []
    timing = plan_timing(plan, machine=machine, num_systems=num_systems, densities=densities)
    return [_event(span, plan) for span in run_spans(timing, steps)]


def store_simulated_views(
    work_dir: Path,
    session: int,
    plan: Plan,
    *,
    machine: Machine,
    num_systems: int,
    densities: Mapping[str, float] | None = None,
) -> None:
    """Store in a job's work directory what pages and csctl show of its program.

    Args:
        work_dir: The job's work directory.
        session: Number of the session that runs it.
        plan: What was loaded.
        machine: What each system is.
        num_systems: How many.
        densities: Of what layer steps load and send by its non-zeros, once that is known.
    """
    keep_output_titles(work_dir, output_titles(plan))
    first = range(1, 2)
    trace = profile(plan, first, machine=machine, num_systems=num_systems, densities=densities)
    keep_profile(work_dir, session, trace)
    if not plan.layer_steps:  # nothing of it runs on the wafer
        return
    timing = plan_timing(plan, machine=machine, num_systems=num_systems, densities=densities)
    picture = wafer_picture(program_step(plan, densities=densities), timing, machine=machine)
    keep_wafer_picture(work_dir, session, json.dumps(asdict(picture)))


def _event(span: Span, plan: Plan) -> FinalizeResponse.EventTrace:
    nodes = () if span.layer_step is None else plan.layer_steps[span.layer_step].nodes
    return FinalizeResponse.EventTrace(
        name=span.name,
        event_type=_EVENT_TYPES[span.kind],
        ts=span.start_seconds * _MICROSECONDS,
        dur=span.seconds * _MICROSECONDS,
        cat=span.direction or span.kind.value,
        pytorch_ops=dict.fromkeys(node.op for node in nodes),
    )
