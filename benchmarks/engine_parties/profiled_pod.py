"""A pod of ours that keeps a ledger of where its loops' time goes; otherwise the pod as it is.

    python -m benchmarks.engine_parties.profiled_pod --spec FILE

Whatever may wait or compute is wrapped with a timer: acquiring and reserving slots, publishing and
releasing them, and every instruction of a program, by the operation's name. What a loop spends
outside of these is its own work: copying in SwarmX's broadcast loop, adding in its reduce loop,
commits in MemoryX, and in a CS-2 the engine's overhead. After each step the ledger so far is
appended to `ledger-POD.jsonl` in the job's work directory.
"""

import functools
import json
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from appliance.core.ids import Role
from appliance.core.pods.pod_spec import PodSpec
from appliance.numerics.groups import Group
from appliance.numerics.programs.program import Program
from appliance.pods import shell
from appliance.pods.role_context import Progress
from appliance.streams.ring_reader import SharedMemoryRingReader
from appliance.streams.ring_writer import SharedMemoryRingWriter
from workers.csx.__main__ import run_pod as run_chief
from workers.memoryx.__main__ import run_pod as run_weight
from workers.swarmx.__main__ import run_pod as run_broadcastreduce

PODS: dict[Role, Callable[[PodSpec], int]] = {
    Role.WEIGHT: run_weight,
    Role.BROADCASTREDUCE: run_broadcastreduce,
    Role.CHIEF: run_chief,
}
NOW = "@now"
"""Category under which a loop's own clocks are kept."""


class Ledger:
    """Wall and processor seconds by loop and category, since the pod began."""

    def __init__(self) -> None:
        self._loops: dict[str, dict[str, list[float]]] = defaultdict(dict)

    def add(self, category: str, wall: float, cpu: float) -> None:
        """Add to a category of the calling loop."""
        loop = self._loops[threading.current_thread().name]
        entry = loop.setdefault(category, [0.0, 0.0, 0.0])
        entry[0] += wall
        entry[1] += cpu
        entry[2] += 1
        loop[NOW] = [time.perf_counter(), time.thread_time(), 0.0]

    def timed(self, category: str, call: Callable[..., Any], *arguments: Any) -> Any:  # noqa: ANN401
        """Make a call and add what it took."""
        wall, cpu = time.perf_counter(), time.thread_time()
        try:
            return call(*arguments)
        finally:
            self.add(category, time.perf_counter() - wall, time.thread_time() - cpu)

    def snapshot(self) -> Mapping[str, Mapping[str, list[float]]]:
        """Return everything so far."""
        return {
            loop: {category: [*entry] for category, entry in list(entries.items())}
            for loop, entries in list(self._loops.items())
        }


def install(ledger: Ledger, path: Path) -> None:
    """Wrap what is to be timed."""
    for kind, names in (
        (SharedMemoryRingReader, ("acquire", "release")),
        (SharedMemoryRingWriter, ("reserve", "publish")),
    ):
        for name in names:
            setattr(kind, name, _timed_stream(ledger, name, getattr(kind, name)))
    Program._execute = _timed_program(ledger)  # type: ignore[method-assign]
    record = Progress.record

    @functools.wraps(record)
    def record_step(self: Progress, *, step: int | None = None, **rest: Any) -> None:  # noqa: ANN401
        record(self, step=step, **rest)
        if step is not None:
            with path.open("a") as out:
                out.write(json.dumps({"step": step, "loops": ledger.snapshot()}) + "\n")

    Progress.record = record_step  # type: ignore[method-assign]


def _timed_stream(ledger: Ledger, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(call)
    def timed(ring: Any, *arguments: Any) -> Any:  # noqa: ANN401
        return ledger.timed(f"{name} {ring._name}", call, ring, *arguments)

    return timed


def _timed_program(ledger: Ledger) -> Callable[..., None]:
    def execute(self: Program, linked: Any, values: Any) -> None:  # noqa: ANN401
        for instruction, group in linked:
            ledger.timed(_category(group), instruction, values)

    return execute


def _category(group: Group) -> str:
    """Return what a group does: the operation, or for several nodes how many and what they give."""
    if len(group.nodes) == 1:
        return f"op {group.nodes[0].op}"
    return f"op {len(group.nodes)} nodes -> {group.types[0]}"


def run_pod(spec: PodSpec) -> int:
    """Be the pod that the spec describes; return the exit code."""
    install(Ledger(), spec.work_dir / f"ledger-{spec.role.value}-{spec.index}.jsonl")
    return PODS[spec.role](spec)


if __name__ == "__main__":
    sys.exit(
        shell.pod_main(None, run_pod, program="python -m benchmarks.engine_parties.profiled_pod")
    )
