"""Training whose state is larger than the memory of all its pods: what crosses the disk in a step.

    python -m benchmarks.larger_than_memory [--width 1536] [--depth 24] [--share 0.5] [--steps 3]

A GPT trains with AdamW twice: in a control group that has room for `--share` of the state, pages of
files included, so that the state is in a file, and with its state in memory. One line for each bar,
`name value bar ok|MISSED`; exits 1 if one is missed. Bytes are those that the kernel counts for the
pods from the first step on. `--small` is a trial without a limit, whose figures mean nothing.
"""

import argparse
import math
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from appliance.core.plans.plan import Plan
from benchmarks.memory import (
    Batches,
    Line,
    gpt,
    limited_engine,
    run_session,
    set_powers,
    weights_of,
)
from benchmarks.programs.gpt import GptShape
from tests.support.engine import Engine
from workers.memoryx.tensor_store import tensor_bytes

_GB = 10**9
_ROOM = 1 << 40
MOST_OF_STATE = 1.2
"""Bytes that a step reads, or writes, for each byte of state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """Bytes that processes have read from disks, and those they have changed in files.

    Attributes:
        read_bytes: From disks, what is read ahead included.
        written_bytes: Counted when a page is changed; a page changed twice before it is written
            counts once.
    """

    read_bytes: int
    written_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """What a run has come to.

    Attributes:
        losses: Of each step.
        seconds: Wall time of all steps.
        moved: Bytes of all steps.
        num_killed: Pods that the kernel has killed for want of memory.
    """

    losses: tuple[float, ...]
    seconds: float
    moved: Moved
    num_killed: int


def moved_by(pids: list[int]) -> Moved:
    """Return what processes have moved since they began."""
    found = {"read_bytes": 0, "write_bytes": 0}
    for pid in pids:
        for line in Path(f"/proc/{pid}/io").read_text().splitlines():
            name, _, value = line.partition(": ")
            if name in found:
                found[name] += int(value)
    return Moved(read_bytes=found["read_bytes"], written_bytes=found["write_bytes"])


def train(plan: Plan, steps: Batches, limit_bytes: int, *, is_trial: bool) -> Trained:
    """Train for all steps, with so much memory for all pods."""
    memory = str(1 if is_trial and limit_bytes < _ROOM else limit_bytes)
    limit = _ROOM if is_trial else limit_bytes
    with limited_engine(limit, is_trial=is_trial, memory_bytes=memory) as limited:
        engine = limited.engine
        engine.load(plan)
        limited.fill(weights_of(plan))
        set_powers(engine, plan)
        before, began = moved_by(_pids(engine)), time.perf_counter()
        _, outputs = run_session(engine, plan, steps)
        seconds, after = time.perf_counter() - began, moved_by(_pids(engine))
        num_killed = limited.num_failures()
    losses = [float(next(v for k, v in step.items() if "loss" in k)) for step in outputs]
    moved = Moved(
        read_bytes=after.read_bytes - before.read_bytes,
        written_bytes=after.written_bytes - before.written_bytes,
    )
    return Trained(losses=tuple(losses), seconds=seconds, moved=moved, num_killed=num_killed)


def _pids(engine: Engine) -> list[int]:
    return [pod.process.pid for pod in engine.pods]


def lines(shape: GptShape, num_steps: int, share: float, *, is_trial: bool) -> Iterator[Line]:
    """Train in memory and on disk; yield a line for each bar."""
    plan, steps = gpt(shape, num_steps)
    state, tokens = tensor_bytes(plan), num_steps * shape.units_a_step
    disk = train(plan, steps, int(state * share), is_trial=is_trial)
    memory = train(plan, steps, _ROOM, is_trial=is_trial)
    for where, found in (("on disk", disk), ("in memory", memory)):
        print(f"# state {where}: {tokens / found.seconds:.1f} tokens/s, {found.moved}")
    print(f"# {shape.num_parameters:,} parameters, {state / _GB:.2f} GB of state")
    is_whole = disk.num_killed == 0 and len(disk.losses) == num_steps
    is_same = is_whole and disk.losses == memory.losses and all(map(math.isfinite, disk.losses))
    yield Line(name="larger.equal_losses", value=float(is_same), bar="=1", is_met=is_same)
    per_step = {"read": disk.moved.read_bytes, "written": disk.moved.written_bytes}
    for name, moved in per_step.items():
        value = moved / num_steps / state
        is_met = is_whole and value <= MOST_OF_STATE
        bar = f"<={MOST_OF_STATE}"
        yield Line(name=f"larger.{name}_to_state", value=value, bar=bar, is_met=is_met)


def main() -> int:
    """Measure and print; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--width", type=int, default=1536)
    parser.add_argument("--depth", type=int, default=24)
    parser.add_argument("--share", type=float, default=0.5, help="memory for each byte of state")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--small", action="store_true", help="a trial")
    options = parser.parse_args()
    width, depth = (64, 2) if options.small else (options.width, options.depth)
    shape = GptShape(
        width=width, depth=depth, heads=width // 64, batch_size=1, seq_len=128, vocab_size=4096
    )
    is_met = True
    for line in lines(shape, options.steps, options.share, is_trial=options.small):
        print(line, flush=True)
        is_met = is_met and line.is_met
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
