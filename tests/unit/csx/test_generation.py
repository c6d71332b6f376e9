"""A loop over positions on one system: caches give what computing all positions gives."""

import gzip
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from appliance.compiler.pipeline import compile_program
from appliance.core.errors import ProgramError
from appliance.core.ir.sharding import BatchShard
from appliance.core.plans.plan import Plan, Precision
from appliance.core.pods.pod_options import StreamMode
from workers.csx.generation import loop_executor
from workers.csx.generation.conditions import hold
from workers.csx.generation.loop_executor import LoopExecutor
from workers.csx.generation.loop_program import loop_program
from workers.csx.generation.rows import Addend, Choice, NotByRowsError

PROGRAMS = Path(__file__).parent / "programs"
BATCH, POSITIONS, START = 4, 16, 49
SHARE = BatchShard(batch_size=BATCH, offset=1, size=3)
PROMPTS = [
    [1, 2, 3] + [START] * 13,
    [5, 6, 7, 8, 9, 10, 11] + [START] * 9,
    [4] * POSITIONS,
]


def text(name: str) -> str:
    return gzip.decompress((PROGRAMS / f"{name}.mlir.gz").read_bytes()).decode()


def compiled(name: str) -> Plan:
    return compile_program(text(name), batch_size=BATCH, precision=Precision.F32)


def executor(plan: Plan, **changes) -> LoopExecutor:
    return LoopExecutor(replace(loop_program(plan, SHARE, mode=StreamMode.RING), **changes))


def generated(plan: Plan, machine: LoopExecutor, *, step: int = 0, seed: int = 0) -> torch.Tensor:
    """Run one batch and return the system's part of the tokens it sends."""
    torch.manual_seed(seed)
    program = loop_program(plan, SHARE, mode=StreamMode.RING)
    loads = {name: torch.randn(program.types[name].shape) * 0.3 for name in sorted(program.loads)}
    batch = {}
    for tensor in plan.inputs:
        shape = SHARE.local_type(tensor.type, 0).shape
        batch[tensor.value] = torch.rand(shape)
        if "stop" in tensor.input_name:
            batch[tensor.value] = torch.full(shape, START, dtype=torch.int32)
        elif "ids" in tensor.input_name:
            batch[tensor.value] = torch.tensor(PROMPTS, dtype=torch.int32)
    (sum_,) = plan.layer_steps[-1].sums
    sums = {sum_.total: torch.full(plan.types[sum_.total].shape, -1, dtype=torch.int32)}
    machine.begin(step, batch)
    for index, layer_step in enumerate(plan.layer_steps):
        machine.compute(
            index,
            {name: loads[name].clone() for name in layer_step.loads},
            sums if index == len(plan.layer_steps) - 1 else {},
        )
    machine.end()
    tokens = sums[sum_.total]
    assert not tokens[:1].any(), "the other system's part is zeros"
    return tokens[1:]


@pytest.mark.parametrize("name", ["generation_greedy", "generation_sampled"])
def test_passes_on_caches_give_the_tokens_of_passes_over_all_positions(name, monkeypatch):
    plan = compiled(name)
    cached = executor(plan)
    assert cached._rows is not None
    tokens = generated(plan, cached)
    assert cached.positions == frozenset(range(2, 12))
    assert cached.num_tokens == 12

    def never(*_args, **_kwargs):
        raise NotByRowsError("for the test")

    monkeypatch.setattr(loop_executor, "by_rows", never)
    whole = executor(plan)
    assert whole._rows is None
    assert torch.equal(generated(plan, whole), tokens)
    assert tokens[0, :3].tolist() == PROMPTS[0][:3]
    assert tokens[0, 9:].tolist() == [START] * 7, "six tokens at most"
    assert tokens[2].tolist() == PROMPTS[2]


def test_logits_computed_on_caches_are_those_of_a_pass_over_all_positions(monkeypatch):
    plan = compiled("generation_greedy")
    seen: list[list[torch.Tensor]] = []

    def watched(machine: LoopExecutor, logits: str) -> LoopExecutor:
        seen.append([])
        original = machine._pass

        def run(rows, fixed, state, position):
            found = original(rows, fixed, state, position)
            seen[-1].append(found[logits])
            return found

        machine._pass = run  # type: ignore[method-assign]
        if machine._rows is not None:
            row_pass = machine._row_pass

            def run_row(rows, fixed, state, position):
                found = row_pass(rows, fixed, state, position)
                seen[-1].append(found[logits])
                return found

            machine._row_pass = run_row  # type: ignore[method-assign]
        return machine

    logits = next(n.results[0] for n in plan.layer_steps[-1].nodes if n.op == "MatMul")
    epilogue = loop_program(plan, SHARE, mode=StreamMode.RING).epilogue
    reader = replace(epilogue[0], op="Cast", operands=(logits,), results=("read",), attributes={})
    types = {node.results[0]: node.types for step in plan.layer_steps for node in step.nodes}
    local = (SHARE.local_type(types[logits][0], 0),)
    changes = {"epilogue": (*epilogue, replace(reader, types=local))}
    generated(plan, watched(executor(plan, **changes), logits))

    def never(*_args, **_kwargs):
        raise NotByRowsError("for the test")

    monkeypatch.setattr(loop_executor, "by_rows", never)
    generated(plan, watched(executor(plan, **changes), logits))
    assert len(seen[0]) == len(seen[1]) == 10
    for cached, whole in zip(*seen, strict=True):
        torch.testing.assert_close(cached, whole, rtol=1e-5, atol=1e-5)


def test_a_mask_that_does_not_hide_later_keys_makes_every_pass_compute_all_positions():
    lenient = text("generation_greedy").replace("-6.550400e+04", "-1.000000e+00")
    plan = compile_program(lenient, batch_size=BATCH, precision=Precision.F32)
    machine = executor(plan)
    assert machine._rows is not None, "the form allows rows; the numbers do not"
    passes = []
    original = machine._pass
    machine._pass = lambda *given: (passes.append(given[3]), original(*given))[1]  # type: ignore[method-assign,func-returns-value]
    generated(plan, machine)
    assert passes == sorted(machine.positions)


def test_loads_are_kept_from_batch_to_batch_and_batches_are_independent():
    plan = compiled("generation_greedy")
    machine = executor(plan)
    first = generated(plan, machine)
    assert torch.equal(generated(plan, machine, step=1), first)
    assert torch.equal(generated(plan, machine, step=2, seed=9), first), "weights are taken once"


def test_two_loops_in_one_program_are_refused():
    twice = text("generation_greedy").replace(
        "cs.autoregressive_unused_output = true",
        'cs.autoregressive = {input_name = "input_input_ids"}',
        1,
    )
    with pytest.raises(ProgramError, match="2 autoregressive loops"):
        compile_program(twice, batch_size=BATCH, precision=Precision.F32)


def test_a_mask_holds_if_every_later_key_is_pushed_down():
    lower = torch.full((4, 4), -65504.0).triu(1)
    values = {"mask": lower.expand(2, 3, 4, 4), "bias": torch.zeros(4, 4), "on": lower < 0}
    mask = Addend("mask", rows=2, keys=3)
    assert hold((mask,), values)
    assert hold((mask, Addend("bias", rows=0, keys=1)), values)
    assert not hold((Addend("bias", rows=0, keys=1),), values)
    assert not hold((Addend("mask", rows=3, keys=2),), values)
    values["bias"] = torch.full((4, 4), 65504.0)
    assert not hold((mask, Addend("bias", rows=0, keys=1)), values)
    values["low"] = torch.full((4, 4), -1e9)
    assert hold((Choice("on", "low", rows=0, keys=1, when=True),), values)
    assert not hold((Choice("on", "low", rows=0, keys=1, when=False),), values)
