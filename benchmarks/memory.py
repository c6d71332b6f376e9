"""What the pods of a job take of memory, and whether that is what they should take.

    python -m benchmarks.memory [--only NAME ...] [--small]

Prints `name value bar ok|MISSED` for each bar, and as a comment what else was seen; exits with 1 if
one is missed. The pods are real processes with programs of the real client; coordinator and input
pods are played by this process, which is not counted. The limited runs put all pods into a control
group, where pages of files count, too; without the right to make one they run without a limit.
`--small` has layers and steps of a trial, whose figures mean nothing.
"""

import argparse
import contextlib
import math
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from appliance.compiler.pipeline import compile_program
from appliance.core.cluster.run import RunSchedule
from appliance.core.plans.plan import Plan, Precision
from appliance.core.pods.pod_options import StreamMode
from appliance.streams import stream_topology as topology
from appliance.streams.store import attach_store
from benchmarks.programs.capture import FIRST_POWERS, plan_batch, program_text
from benchmarks.programs.gpt import GptShape, batches
from protos.wsc.v1 import pods_pb2
from tests.support.engine import Engine, make_engine
from tests.support.memory_group import MemoryGroup, memory_group
from tests.support.plans import deep_plan
from workers.memoryx.tensor_store import tensor_bytes

_SAMPLE_SECONDS = 0.25
_GB, _MIB, _KIB = 10**9, 1 << 20, 1024
_RUN_SECONDS = 1800.0
_MODEL = "state.model."
_LARGE = GptShape(width=2048, depth=24, heads=16, batch_size=1, seq_len=128, vocab_size=50257)
"""1.31 billion parameters; the head is tied to the embedding."""

Batches = list[Mapping[str, NDArray[Any]]]


@dataclass(frozen=True, kw_only=True)
class Line:
    """One figure.

    Attributes:
        name: What it is.
        value: It.
        bar: What it has to be, for people.
        is_met: Whether it is.
    """

    name: str
    value: float
    bar: str
    is_met: bool

    def __str__(self) -> str:
        return f"{self.name} {self.value:.3f} {self.bar} {'ok' if self.is_met else 'MISSED'}"


@dataclass(frozen=True, kw_only=True)
class Own:
    """What is a process's own of its memory.

    Attributes:
        anonymous_bytes: What no file stands behind.
        ring_bytes: Its part of the rings: a page counts as a half for each of two that map it and
            have looked at it, and whole for one as long as the other has not.
    """

    anonymous_bytes: int
    ring_bytes: int


class Sampler:
    """Highest memory of an engine's pods while it is open, pages of files apart.

    Args:
        engine: The pods.

    Attributes:
        peak_bytes: Of all of them at one time.
        peak_of: Of each role, with its part of the rings as it was at last, when all who share a
            page have looked at it.
    """

    def __init__(self, engine: Engine) -> None:
        self._pids = {pod.spec.role.value: pod.process.pid for pod in engine.pods}
        self.peak_bytes = 0
        self._anonymous = dict.fromkeys(self._pids, 0)
        self._rings = dict.fromkeys(self._pids, 0)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Sampler":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._look()

    @property
    def peak_of(self) -> Mapping[str, int]:
        """See the class."""
        return {role: self._anonymous[role] + ring for role, ring in self._rings.items()}

    def _run(self) -> None:
        while not self._ended.wait(_SAMPLE_SECONDS):
            self._look()

    def _look(self) -> None:
        found = {role: own_memory(pid) for role, pid in self._pids.items()}
        total = sum(own.anonymous_bytes + own.ring_bytes for own in found.values())
        self.peak_bytes = max(self.peak_bytes, total)
        for role, own in found.items():
            self._anonymous[role] = max(self._anonymous[role], own.anonymous_bytes)
            self._rings[role] = own.ring_bytes


def own_memory(pid: int) -> Own:
    """Return what a process takes now; nothing if it has ended."""
    found = dict.fromkeys(("Pss_Anon", "Pss_Shmem"), 0)
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            name, _, value = line.partition(":")
            if name in found:
                found[name] = int(value.split()[0]) * _KIB
    return Own(anonymous_bytes=found["Pss_Anon"], ring_bytes=found["Pss_Shmem"])


class Limited:
    """An engine of one system whose pods share a limit.

    Args:
        engine: The pods.
        group: Their control group; None without the right to make one.
    """

    def __init__(self, engine: Engine, group: MemoryGroup | None) -> None:
        self.engine, self._group = engine, group

    def fill(self, names: list[str]) -> None:
        """Write random numbers into state tensors, under the same limit."""
        address = self.engine.address(1, topology.store(0))
        joined = contextlib.nullcontext() if self._group is None else self._group.joined()
        with joined:
            command = [sys.executable, "-m", "tests.support.fill_store", address, *names]
            subprocess.run(command, check=True)

    def num_failures(self) -> int:
        """Return how many of the processes the kernel has killed."""
        return 0 if self._group is None else self._group.num_failures()


@contextlib.contextmanager
def limited_engine(
    limit_bytes: int, *, is_trial: bool = False, **options: str
) -> Iterator[Limited]:
    """Yield an engine whose pods may together use so much memory.

    Args:
        limit_bytes: The limit.
        is_trial: Whether pods may be forked from one interpreter, outside of the limit.
        options: Of the pods.
    """
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="wsc-memory-")))
        group: MemoryGroup | None = None
        joined: contextlib.AbstractContextManager[object] = contextlib.nullcontext()
        try:
            group = stack.enter_context(memory_group())
            group.limit(limit_bytes)
            joined = group.joined()
        except pytest.skip.Exception as reason:
            print(f"# {reason}; the pods run without a limit")
        with joined:
            engine = stack.enter_context(
                make_engine(directory, num_systems=1, own_interpreters=not is_trial, **options)
            )
        yield Limited(engine, group)


def run_session(engine: Engine, plan: Plan, steps: Batches) -> tuple[Sampler, list[Any]]:
    """Run the steps of a loaded session whose state is there; return memory and outputs."""
    names = [tensor.resource_name for tensor in plan.state]
    request = pods_pb2.CommitIngestRequest(session=1, resource_names=names)
    engine.weight.memoryx.CommitIngest(request)
    schedule = RunSchedule(num_steps=len(steps), output_interval=1, checkpoint_steps=frozenset())
    with Sampler(engine) as sampler:
        engine.feed(plan, steps)
        engine.start(plan, schedule)
        outputs = engine.outputs(_RUN_SECONDS)
    return sampler, outputs


def gpt(shape: GptShape, num_steps: int) -> tuple[Plan, Batches]:
    """Return the plan of the client's program for a GPT, and batches for it."""
    text = program_text(shape)
    plan = compile_program(text, batch_size=shape.batch_size, precision=Precision.F32)
    names = {tensor.input_name: tensor.value for tensor in plan.inputs}
    steps: Batches = [
        {names[name]: value for name, value in plan_batch(plan, batch).items()}
        for batch in batches(shape, num_steps)
    ]
    return plan, steps


def set_powers(engine: Engine, plan: Plan) -> None:
    """Give AdamW's scalars what a fresh optimizer has."""
    items = {item.name: item for item in topology.state_layout(plan).items}
    with attach_store(engine.address(1, topology.store(0))) as store:
        memory = store.attach(topology.STATE_SEGMENT)
        for tensor in plan.state:
            power = FIRST_POWERS.get(tensor.resource_name.rpartition(".")[2])
            if power is not None:
                items[tensor.value].view(memory)[...] = power


def weights_of(plan: Plan) -> list[str]:
    """Return the value names of the model's weights."""
    return [tensor.value for tensor in plan.state if tensor.resource_name.startswith(_MODEL)]


def worker_bytes(depth: int, streams: str, *, is_trial: bool) -> float:
    """Return a system's memory in training a GPT of so many layers, activations apart."""
    plan, steps = gpt(GptShape(width=512, depth=depth, batch_size=2, seq_len=64), 3)
    with limited_engine(64 * _GB, is_trial=is_trial, streams=streams) as limited:
        engine = limited.engine
        engine.load(plan)
        limited.fill(weights_of(plan))
        set_powers(engine, plan)
        sampler, _ = run_session(engine, plan, steps)
        activations = engine.readings(engine.chiefs[0])["wsc_csx_activation_peak_bytes"]
    found: float = sampler.peak_of["chief"] - activations
    print(
        f"# {depth} layers, {streams}: system {found / _MIB:.1f} MiB and "
        f"{activations / _MIB:.1f} MiB of activations"
    )
    return found


def worker_lines(is_small: bool) -> Iterator[Line]:
    """Compare a system's memory at 48 layers with that at 4."""
    most, least = (
        worker_bytes(depth, "ring", is_trial=is_small)
        for depth in (2 if is_small else 48, 1 if is_small else 4)
    )
    ratio = most / least
    yield Line(name="worker_memory_48_to_4_layers", value=ratio, bar="<=1.05", is_met=ratio <= 1.05)


def copy_lines(is_small: bool) -> Iterator[Line]:
    """Count the bytes that a broadcast copies, for each byte that layer steps load."""
    plan, width = deep_plan(num_layers=2 if is_small else 8, width=256), 256
    steps: Batches = [{"h0": np.ones((2, width), dtype=np.float32)}] * 4
    loaded = sum(type_.num_bytes for step in plan.layer_steps for _, type_ in plan.load_types(step))
    for mode, bar in ((StreamMode.RING, 1.0), (StreamMode.MAPPED, 0.0)):
        with limited_engine(64 * _GB, is_trial=is_small, streams=mode.value) as limited:
            limited.engine.load(plan)
            run_session(limited.engine, plan, steps)
            readings = limited.engine.readings(limited.engine.broadcastreduce)
        ratio = readings["wsc_swarmx_broadcast_copied_bytes"] / (loaded * len(steps))
        yield Line(
            name=f"broadcast_copies_{mode.value}",
            value=ratio,
            bar=f"={bar:g}",
            is_met=math.isclose(ratio, bar),
        )


def twice_lines(is_small: bool) -> Iterator[Line]:
    """Train with tensors of twice the memory that all pods together may use."""
    limit, width = 640 * _MIB, 2048
    plan = deep_plan(num_layers=4 if is_small else 81, width=width)
    steps: Batches = [{"h0": np.ones((2, width), dtype=np.float32)}] * 2
    with limited_engine(limit, memory_bytes=str(limit)) as limited:
        limited.engine.load(plan)
        limited.fill([tensor.value for tensor in plan.state])
        _, outputs = run_session(limited.engine, plan, steps)
        is_done = len(outputs) > 0 and limited.num_failures() == 0
    ratio = tensor_bytes(plan) / limit
    yield Line(
        name="memoryx_tensors_to_limit",
        value=ratio,
        bar=">=2",
        is_met=is_done and ratio >= 2,
    )


def large_lines(is_small: bool) -> Iterator[Line]:
    """Train 1.3 billion parameters for two steps within 4 GB, MemoryX's mapped file apart."""
    plan, steps = gpt(replace(_LARGE, width=256, depth=2) if is_small else _LARGE, 2)
    parameters = sum(
        tensor.type.num_elements for tensor in plan.state if tensor.value in set(weights_of(plan))
    )
    limit = 4 * _GB
    for mode in StreamMode:
        with limited_engine(
            limit, is_trial=is_small, streams=mode.value, memory_bytes=str(limit)
        ) as limited:
            engine = limited.engine
            engine.load(plan)
            limited.fill(weights_of(plan))
            set_powers(engine, plan)
            sampler, outputs = run_session(engine, plan, steps)
            killed = limited.num_failures()
        losses = [float(next(v for k, v in step.items() if "loss" in k)) for step in outputs]
        shares = ", ".join(f"{role} {peak / _GB:.2f}" for role, peak in sampler.peak_of.items())
        print(f"# {parameters:,} parameters, {mode.value}: losses {losses}, {shares} GB")
        peak = sampler.peak_bytes / _GB
        is_met = peak <= 4 and not killed and len(losses) == 2 and all(map(math.isfinite, losses))
        yield Line(name=f"train_1.3b_{mode.value}_gb", value=peak, bar="<=4", is_met=is_met)


_PARTS: Mapping[str, Callable[[bool], Iterator[Line]]] = {
    "worker": worker_lines,
    "copies": copy_lines,
    "twice": twice_lines,
    "large": large_lines,
}


def main() -> int:
    """Measure and print; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", choices=sorted(_PARTS), default=list(_PARTS))
    is_met = True
    parser.add_argument("--small", action="store_true", help="a trial of each part")
    options = parser.parse_args()
    for name in options.only:
        for line in _PARTS[name](options.small):
            print(line, flush=True)
            is_met = is_met and line.is_met
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
