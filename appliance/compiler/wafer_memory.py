"""How a plan uses the wafer, and how many samples are computed at a time, from what it needs.

What values take is `wafer/timing/plan_memory.py`'s business, so that the compiler decides what the
planner foretells. In weight streaming the widest layer step decides, and what waits for the
backward pass may leave the wafer; in pipelined execution everything has to be there: weights,
gradients and optimizer state, all layer steps side by side, and what waits between them.
"""

from dataclasses import replace

from appliance.core.errors import ProgramError
from appliance.core.ir.sharding import BatchShard, split_batch
from appliance.core.plans.micro_batches import WaferLimits
from appliance.core.plans.plan import Execution, Plan
from appliance.wafer.timing.pipelined import (
    RESIDENT_BYTES_PER_PARAMETER,
    ResidentNeed,
    resident_need,
)
from appliance.wafer.timing.plan_memory import HeldValue, plan_memory
from appliance.wafer.timing.program_operations import program_step, score_values
from appliance.wafer.timing.sample_memory import need_bytes, samples_that_fit
from appliance.wafer.timing.step_program import StepProgram


def limit_memory(plan: Plan, *, num_systems: int, limits: WaferLimits) -> Plan:
    """Return a plan with the execution, and with the micro-batch in which every share fits.

    Args:
        plan: A verified plan.
        num_systems: Systems that share the batch.
        limits: The wafer's memory and what the user asks for.

    Raises:
        ProgramError: It does not fit; the message names the largest tensor.
    """
    share = split_batch(plan.batch_size, num_systems)[0].size
    wanted = min(limits.micro_batch_size or share, share)
    program = program_step(plan, name="The program")
    if _is_pipelined(plan, program, share, limits):
        plan = replace(plan, execution=Execution.PIPELINED)
    elif limits.wafer_bytes is not None and plan.layer_steps:
        most = samples_that_fit(program, limits.wafer_bytes)
        if most < 1:
            raise _does_not_fit(plan, program, limits.wafer_bytes)
        if wanted > most and (limits.micro_batch_size is not None or not limits.may_split):
            raise _too_large(program, wanted, most, limits)
        wanted = min(wanted, most)
    return plan if wanted == share else replace(plan, micro_batch_size=wanted)


def _is_pipelined(plan: Plan, program: StepProgram, share: int, limits: WaferLimits) -> bool:
    """Return whether a plan is executed with all of it on the wafer.

    Left to us, it is if it fits and no sum over the batch would drain the pipeline within a step.
    """
    if limits.execution is Execution.WEIGHT_STREAMING or not plan.layer_steps:
        return False
    need = resident_need(program, share)
    fits = limits.wafer_bytes is None or need.num_bytes <= limits.wafer_bytes
    if limits.execution is None:
        return fits and program.num_segments == 1
    if not fits:
        assert limits.wafer_bytes is not None
        raise _cannot_be_pipelined(plan, need, share, limits.wafer_bytes)
    return True


def _does_not_fit(plan: Plan, program: StepProgram, wafer_bytes: int) -> ProgramError:
    largest = plan_memory(plan, score_values(plan)).largest
    assert largest is not None
    return ProgramError(
        f"One sample at a time needs {need_bytes(program, 1):,.0f} bytes of wafer memory; one "
        f"system has {wafer_bytes:,}. The largest tensor is {_described(plan, largest)}.",
        hint="Lower the sequence length or the hidden size.",
    )


def _described(plan: Plan, held: HeldValue) -> str:
    shard = BatchShard(batch_size=plan.batch_size, offset=0, size=1)
    type_ = shard.local_type(plan.types[held.name], plan.sharded.get(held.name))
    size = held.sample_bytes + held.fixed_bytes
    width = " in 16 bits" if held.name in plan.narrow else ""
    return f"%{held.name}, {type_}{width} with {size:,.0f} bytes, {_origin(plan, held.name)}"


def _too_large(program: StepProgram, wanted: int, most: int, limits: WaferLimits) -> ProgramError:
    return ProgramError(
        f"A micro-batch of {wanted} samples needs {need_bytes(program, wanted):,.0f} bytes of "
        f"wafer memory; one system has {limits.wafer_bytes:,}.",
        hint=f'Set micro_batch_size to {most} or less, or to "auto".',
    )


def _cannot_be_pipelined(
    plan: Plan, need: ResidentNeed, share: int, wafer_bytes: int
) -> ProgramError:
    weights = {
        tensor.resource_name: tensor.type.num_elements * RESIDENT_BYTES_PER_PARAMETER
        for tensor in plan.state
        if any(tensor.value in step.loads for step in plan.layer_steps)
    }
    waiting = {
        f"%{held.name}, {_origin(plan, held.name)}": held.sample_bytes * held.waiting_samples(share)
        for held in plan_memory(plan, score_values(plan)).values
    }
    name, size = max((*weights.items(), *waiting.items()), key=lambda item: item[1])
    return ProgramError(
        f"Pipelined execution needs {need.num_bytes:,.0f} bytes of wafer memory, "
        f"{need.weight_bytes:,.0f} of them for weights, gradients and optimizer state; one system "
        f"has {wafer_bytes:,}. The largest tensor is {name} with {size:,.0f} bytes.",
        hint="Use weight streaming, a smaller network or a shorter sequence.",
    )


def _origin(plan: Plan, value: str) -> str:
    for tensor in plan.inputs:
        if tensor.value == value:
            return f"the batch tensor {tensor.input_name!r}"
    nodes = [*plan.wafer_constants, *(node for step in plan.layer_steps for node in step.nodes)]
    node = next(node for node in nodes if value in node.results)
    return f"made by {node.op} in {node.location}"
