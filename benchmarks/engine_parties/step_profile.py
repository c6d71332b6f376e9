"""Where every millisecond of a step goes, pod by pod: reads the ledgers of profiled pods."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.engine_parties.engine_party import BenchmarkJob, EngineParty
from benchmarks.engine_parties.profiled_pod import NOW
from tests.support.pod_processes import Job, PodProcess

PROFILED_MODULE = "benchmarks.engine_parties.profiled_pod"
_WARM_UP_STEPS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What one loop of one pod spends on one thing in a step.

    Attributes:
        pod: As in `chief-0`.
        loop: As in `compute`.
        category: `op NAME`, `acquire STREAM` and so on; `own work` for the rest, `total` for all.
        wall_ms: Wall milliseconds.
        cpu_ms: Milliseconds of the loop's own processor time.
        count: How often.
    """

    pod: str
    loop: str
    category: str
    wall_ms: float
    cpu_ms: float
    count: float


class ProfiledParty(EngineParty):
    """Our engine with pods that keep ledgers."""

    def make_job(self) -> Job:
        """Return a job whose pods are profiled ones."""
        return _ProfiledJob(self.directory)


class _ProfiledJob(BenchmarkJob):
    """Launches every pod as a profiled one."""

    def launch(self, module: str, role: str, index: int = 0, **options: str) -> PodProcess:
        """Start the profiled pod in place of the module."""
        process: PodProcess = super().launch(PROFILED_MODULE, role, index, **options)
        return process


def profile(party: ProfiledParty, num_steps: int) -> list[Entry]:
    """Run a party for so many steps beyond warming up, and return what each loop spent."""
    try:
        party.start()
        party.run(_WARM_UP_STEPS)
        party.run(num_steps + 1)
        paths = sorted((party.directory / "work").glob("ledger-*.jsonl"))
        return [entry for path in paths for entry in _entries(path, num_steps)]
    finally:
        party.close()


def _entries(path: Path, num_steps: int) -> Iterator[Entry]:
    pod = path.stem.removeprefix("ledger-")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    by_step = {line["step"]: line["loops"] for line in lines}
    first = by_step[_WARM_UP_STEPS]
    last = by_step[_WARM_UP_STEPS + num_steps]
    for loop, entries in last.items():
        yield from _loop_entries(pod, loop, first.get(loop, {}), entries, num_steps)


def _loop_entries(
    pod: str,
    loop: str,
    first: Mapping[str, list[float]],
    last: Mapping[str, list[float]],
    num_steps: int,
) -> Iterator[Entry]:
    if NOW not in first:
        return
    spent: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    for category, values in last.items():
        before = first.get(category, [0.0, 0.0, 0.0])
        spent[category] = [b - a for a, b in zip(before, values, strict=True)]
    wall, cpu, _ = spent.pop(NOW)
    if wall <= 0:  # a thread that only loaded the plan
        return
    rest = [wall, cpu]
    for category, values in spent.items():
        rest = [rest[0] - values[0], rest[1] - values[1]]
        yield _entry((pod, loop, category), values, num_steps)
    yield _entry((pod, loop, "own work"), [*rest, 0.0], num_steps)
    yield _entry((pod, loop, "total"), [wall, cpu, 0.0], num_steps)


def _entry(place: tuple[str, str, str], spent: list[float], num_steps: int) -> Entry:
    pod, loop, category = place
    wall, cpu, count = (value / num_steps for value in spent)
    return Entry(
        pod=pod,
        loop=loop,
        category=category,
        wall_ms=1e3 * wall,
        cpu_ms=1e3 * cpu,
        count=count,
    )


def rows(entries: list[Entry], *, least_ms: float = 0.5) -> Iterator[str]:
    """Yield a Markdown table for each loop, largest first; small entries are summed up."""
    loops = dict.fromkeys((entry.pod, entry.loop) for entry in entries)
    for pod, loop in loops:
        mine = [e for e in entries if (e.pod, e.loop) == (pod, loop)]
        (total,) = (e for e in mine if e.category == "total")
        yield f"\n**{pod}, {loop} loop**\n"
        yield "| what | calls | wall ms | cpu ms | of wall |"
        yield "|---|---:|---:|---:|---:|"
        shown = sorted(mine, key=lambda e: (e.category == "total", -e.wall_ms))
        large = [e for e in shown if e.wall_ms >= least_ms or e.category in ("own work", "total")]
        small = [e for e in shown if e not in large]
        for entry in large[:-1]:
            yield _row(entry.category, entry, total.wall_ms)
        if small:
            yield (
                f"| {len(small)} others | {sum(e.count for e in small):.0f} | "
                f"{sum(e.wall_ms for e in small):.2f} | {sum(e.cpu_ms for e in small):.2f} | "
                f"{sum(e.wall_ms for e in small) / total.wall_ms:.1%} |"
            )
        yield _row("total", total, total.wall_ms)


def _row(name: str, entry: Entry, total_ms: float) -> str:
    return (
        f"| {name} | {entry.count:.0f} | {entry.wall_ms:.2f} | {entry.cpu_ms:.2f} | "
        f"{entry.wall_ms / total_ms:.1%} |"
    )


def overhead(entries: list[Entry], pod: str = "chief-0") -> float:
    """Return a CS-2's own work and stream calls, without waits, over its processor time of a step.

    Waiting shows in wall time only; what costs processor time beside the operations is the engine.
    """
    mine = [e for e in entries if (e.pod, e.loop) == (pod, "compute")]
    (total,) = (e for e in mine if e.category == "total")
    kernels = sum(e.cpu_ms for e in mine if e.category.startswith("op "))
    return (total.cpu_ms - kernels) / total.cpu_ms
