"""A plan's computation in one process and one thread, against the same model in eager PyTorch.

    python benchmarks/kernels.py [--width 512 --depth 8 ...] [--rounds N] [--precision f32|exact]
                                 [--where] [--against-f32]

The real client's program for the benchmark GPT is compiled; its wafer part and its update part run
here as the pods run them, without streams. The contender is the same module with torch's fused
AdamW. Both take steps in turn on the same batches. Printed are medians of paired ratios of CPU time
(contender / ours: above 1 we are faster), for the whole step, the wafer part and the update part;
`--where` adds where our milliseconds go, by kind of operation. `--against-f32` has our own program
in bfloat16 against the same in float32 instead, and against the module under bfloat16 autocast.
"""

import argparse
import statistics
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields

import numpy as np
import torch

from appliance.compiler.pipeline import compile_program
from appliance.core.ir.sharding import split_batch
from appliance.core.plans.plan import STEP_START, Plan, Precision
from appliance.numerics.elements import torch_dtype
from appliance.numerics.groups import Group
from appliance.numerics.programs import program as programs
from appliance.numerics.programs.node_closures import Instruction, Table
from benchmarks.programs.capture import initial_state, plan_batch, program_text
from benchmarks.programs.gpt import (
    BETAS,
    EPSILON,
    LEARNING_RATE,
    WEIGHT_DECAY,
    Gpt,
    GptShape,
    batches,
)
from workers.csx.executor import Executor
from workers.csx.wafer_program import wafer_part
from workers.memoryx.readiness import deferred_sum_layout
from workers.memoryx.updates import Updates

Batch = dict[str, torch.Tensor]


def seconds(action: Callable[[], object]) -> float:
    """Return the CPU time of a call in this thread; other load on the machine does not count."""
    began = time.thread_time()
    action()
    return time.thread_time() - began


class Eager:
    """The module in plain PyTorch.

    Args:
        shape: Its sizes.
        is_autocast: Whether its forward pass runs under autocast to bfloat16.
    """

    def __init__(self, shape: GptShape, *, is_autocast: bool = False) -> None:
        torch.manual_seed(0)
        self.is_autocast = is_autocast
        self.module = Gpt(shape)
        self.optimizer = torch.optim.AdamW(
            self.module.parameters(),
            lr=LEARNING_RATE,
            betas=BETAS,
            eps=EPSILON,
            weight_decay=WEIGHT_DECAY,
            fused=True,
        )
        self.loss = 0.0

    def gradients(self, batch: Batch) -> None:
        """Forward and backward."""
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.is_autocast):
            loss = self.module(**batch)
        loss.backward()
        self.loss = float(loss.detach())

    def update(self) -> None:
        """The optimizer's step."""
        self.optimizer.step()
        self.optimizer.zero_grad()


class Planned:
    """The plan, as CS-2 and MemoryX run it."""

    def __init__(self, plan: Plan, state: Mapping[str, np.ndarray]) -> None:
        self.plan = plan
        self.state = {t.value: torch.from_numpy(state[t.resource_name]) for t in plan.state}
        loaded = {name for step in plan.layer_steps for name in step.loads} - self.state.keys()
        self.computed = {name: self._empty(name) for name in loaded}
        self.executor = Executor(wafer_part(plan, split_batch(plan.batch_size, 1)[0]))
        deferred = {item.name: self._empty(item.name) for item in deferred_sum_layout(plan).items}
        self.updates = Updates(
            plan, state=self.state, computed=self.computed, deferred_sums=deferred
        )
        self.sums = [
            {sum_.total: self._empty(sum_.total) for sum_ in step.sums} for step in plan.layer_steps
        ]
        self.after: dict[int, list[int]] = {}
        for index, update in enumerate(plan.updates):
            self.after.setdefault(update.after, []).append(index)
        self.outputs = {o.output_name: torch.empty(o.type.shape) for o in plan.outputs}
        self.step_number = 0

    def _empty(self, name: str) -> torch.Tensor:
        type_ = self.plan.types[name]
        return torch.empty(type_.shape, dtype=torch_dtype(type_.dtype))

    @property
    def loss(self) -> float:
        """The last step's loss."""
        return float(next(iter(self.outputs.values())))

    def step(self, batch: Batch) -> tuple[float, float]:
        """Take a step; return the CPU time of the wafer part and of the update part."""
        given = plan_batch(self.plan, batch)
        inputs = {i.value: torch.from_numpy(given[i.input_name]) for i in self.plan.inputs}
        memory = {**self.state, **self.computed}
        self.updates.begin(self.step_number, self.outputs)
        update = self._run(STEP_START)
        wafer = seconds(lambda: self.executor.begin(self.step_number, inputs))
        for index, layer_step in enumerate(self.plan.layer_steps):
            loads, sums = {name: memory[name] for name in layer_step.loads}, self.sums[index]
            wafer += seconds(lambda: self.executor.compute(index, loads, sums))  # noqa: B023
            update += seconds(lambda: self.updates.arrive(index, sums))  # noqa: B023
            update += self._run(index)
            self.updates.depart(index)
        wafer += seconds(self.executor.end)
        self.step_number += 1
        return wafer, update

    def _run(self, after: int) -> float:
        return sum(seconds(lambda: self.updates.run(i)) for i in self.after.get(after, ()))  # noqa: B023


@dataclass
class Round:
    """CPU seconds of one step of each."""

    eager_gradients: float
    eager_update: float
    wafer: float
    update: float

    @property
    def ratio(self) -> float:
        """How much faster ours is."""
        return (self.eager_gradients + self.eager_update) / (self.wafer + self.update)


def where(planned: Planned, batch: Batch, rounds: int) -> None:
    """Print where a step's CPU time goes, by kind of operation, largest first."""
    spent: dict[str, float] = defaultdict(float)
    calls: Counter[str] = Counter()
    plain_execute = programs.Program._execute

    def execute(
        _self: programs.Program, linked: list[tuple[Instruction, Group]], values: Table
    ) -> None:
        for instruction, group in linked:
            kind = f"{_name(group)} -> {_shapes(group)}"
            spent[kind] += seconds(lambda: instruction(values))  # noqa: B023
            calls[kind] += 1

    programs.Program._execute = execute  # type: ignore[method-assign, assignment]
    total = sum(sum(planned.step(batch)) for _ in range(rounds)) / rounds
    programs.Program._execute = plain_execute  # type: ignore[method-assign]
    for kind, amount in sorted(spent.items(), key=lambda entry: -entry[1])[:45]:
        share = amount / rounds
        print(f"  {share * 1e3:9.3f} ms {share / total:6.1%} {calls[kind] // rounds:5d}  {kind}")
    kernels = sum(spent.values()) / rounds
    print(f"  {kernels * 1e3:9.3f} ms in kernels, {total * 1e3:.3f} ms in all")


def _name(group: Group) -> str:
    return group.nodes[0].op if len(group.nodes) == 1 else f"{len(group.nodes)} nodes"


def _shapes(group: Group) -> str:
    return " ".join("x".join(map(str, type_.shape)) or "scalar" for type_ in group.types[:4])


def against_f32(options: argparse.Namespace, shape: GptShape) -> bool:
    """Run our program in bfloat16 beside float32 and autocast; print the bars.

    Returns:
        Whether they are met.
    """
    text, eager = program_text(shape), Eager(shape, is_autocast=True)
    plans = [
        compile_program(text, batch_size=shape.batch_size, precision=precision)
        for precision in (Precision.F32, Precision.EXACT)
    ]
    parties = [Planned(plan, initial_state(plan, eager.module)) for plan in plans]
    to_f32, to_autocast = [], []
    for index, batch in enumerate(batches(shape, options.rounds + options.warmup)):
        wide, narrow = (sum(party.step(batch)) for party in parties)
        autocast = seconds(lambda: eager.gradients(batch)) + seconds(eager.update)  # noqa: B023
        if index >= options.warmup:
            to_f32.append(wide / narrow)
            to_autocast.append(autocast / narrow)
    is_faster = say("bfloat16_to_own_f32", statistics.median(to_f32), 1.4)
    return say("bfloat16_to_autocast", statistics.median(to_autocast), 1.0) and is_faster


def say(name: str, value: float, least: float) -> bool:
    """Print the line of a bar; return whether it is met."""
    print(f"{name} {value:.3f} >={least} {'ok' if value >= least else 'MISSED'}")
    return value >= least


def measure(options: argparse.Namespace, shape: GptShape) -> bool:
    """Run both and print one line per measured quantity; return whether the bar is met."""
    plan = compile_program(
        program_text(shape), batch_size=shape.batch_size, precision=Precision(options.precision)
    )
    eager = Eager(shape)
    planned = Planned(plan, initial_state(plan, eager.module))
    found: list[Round] = []
    differences: list[float] = []
    given = batches(shape, options.rounds + options.warmup)
    for index, batch in enumerate(given):
        gradients = seconds(lambda: eager.gradients(batch))  # noqa: B023
        eager_update = seconds(eager.update)
        wafer, update = planned.step(batch)
        differences.append(abs(eager.loss - planned.loss))
        if index >= options.warmup:
            found.append(Round(gradients, eager_update, wafer, update))
    report(found, differences)
    if options.where:
        where(planned, given[0], 5)
    return say(
        "update_to_fused_adamw", statistics.median(r.eager_update / r.update for r in found), 0.8
    )


def report(found: list[Round], differences: list[float]) -> None:
    """Print medians."""
    for name in ("eager_gradients", "eager_update", "wafer", "update"):
        print(f"{name:24} {statistics.median(getattr(r, name) for r in found) * 1e3:9.2f} ms")
    ratios = [r.ratio for r in found]
    wafer = statistics.median(r.eager_gradients / r.wafer for r in found)
    update = statistics.median(r.eager_update / r.update for r in found)
    print(f"gradients_ratio          {wafer:9.3f}")
    print(f"update_ratio             {update:9.3f}")
    quartiles = statistics.quantiles(ratios, n=4)
    print(
        f"step_ratio               {quartiles[1]:9.3f}   ({quartiles[0]:.3f}..{quartiles[2]:.3f})"
    )
    print(f"largest_loss_difference  {max(differences):9.2e}   ({len(differences)} steps)")


def main() -> int:
    """Run from the command line; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--precision", choices=[p.value for p in Precision], default="f32")
    parser.add_argument("--where", action="store_true", help="time by kind of operation")
    parser.add_argument("--against-f32", action="store_true", help="our bfloat16 beside our f32")
    for field in fields(GptShape):
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=int, default=field.default)
    options = parser.parse_args()
    torch.set_num_threads(1)
    shape = GptShape(**{field.name: getattr(options, field.name) for field in fields(GptShape)})
    print(f"{shape.name}, one thread, CPU time, {options.precision}")
    is_met = against_f32(options, shape) if options.against_f32 else measure(options, shape)
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
