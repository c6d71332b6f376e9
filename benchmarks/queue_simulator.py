"""Measures the scheduler: `make bench-queue`, or `python -m benchmarks.queue_simulator`.

Replays traces through the appliance's own scheduler on a simulated clock, under strict first come,
first served, EASY backfill and our policy, and times a cycle over 100,000 queued jobs. Prints a
table for people, then one line per bar (`name value bar ok|MISSED`); the exit code is 1 if one is
missed.

    python -m benchmarks.queue_simulator                      # synthetic traces
    python -m benchmarks.queue_simulator --swf LOG [--systems 64]
    python -m benchmarks.queue_simulator --write-swf DIR      # the traces, for other simulators
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from appliance.scheduler.policy import EASY, FIRST_COME, Policy
from benchmarks.simulation.cycle_time import cycle_times
from benchmarks.simulation.measures import Measures, measure
from benchmarks.simulation.replay import Replay
from benchmarks.simulation.synthetic import synthesise
from benchmarks.simulation.trace import Trace, read_swf, write_swf

POLICIES = {"FIFO": FIRST_COME, "EASY": EASY, "ours": Policy()}

_SEEDS_AND_LOADS = ((1, 0.80), (2, 0.92))
_SYNTHETIC_SYSTEMS = 32
_LONG_QUEUE = 100_000
_HOUR = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A figure and what it must not exceed."""

    name: str
    value: float
    most: float

    @property
    def is_met(self) -> bool:
        """Whether the figure is good enough."""
        return self.value <= self.most

    def __str__(self) -> str:
        verdict = "ok" if self.is_met else "MISSED"
        return f"{self.name} {self.value:.3f} <={self.most:g} {verdict}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark and return the exit code."""
    options = _parse(arguments)
    traces = _traces(options)
    if options.write_swf is not None:
        for trace in traces:
            write_swf(trace, options.write_swf / f"{trace.name.replace(' ', '-')}.swf")
        return 0
    bars = [*_simulate(traces, options.processes), *_time_cycles(options.queued)]
    for bar in bars:
        print(bar)
    return 0 if all(bar.is_met for bar in bars) else 1


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--swf", type=Path, nargs="*", default=[], help="logs to replay")
    parser.add_argument("--systems", type=int, help="size of the cluster")
    parser.add_argument("--jobs", type=int, default=100_000, help="jobs of a trace at most")
    parser.add_argument("--queued", type=int, default=_LONG_QUEUE, help="jobs for timing a cycle")
    parser.add_argument("--processes", type=int, default=2, help="replays at a time")
    parser.add_argument("--write-swf", type=Path, help="write the traces there and stop")
    return parser.parse_args(arguments)


def _traces(options: argparse.Namespace) -> list[Trace]:
    if options.swf:
        return [
            read_swf(path, num_systems=options.systems, max_jobs=options.jobs)
            for path in options.swf
        ]
    num_systems = options.systems or _SYNTHETIC_SYSTEMS
    return [
        synthesise(seed=seed, num_jobs=options.jobs, num_systems=num_systems, load=load)
        for seed, load in _SEEDS_AND_LOADS
    ]


def _simulate(traces: Sequence[Trace], num_processes: int) -> Iterator[Bar]:
    runs = [(trace, policy) for trace in traces for policy in POLICIES.values()]
    with ProcessPoolExecutor(num_processes) as pool:
        found = pool.map(_replay, runs)
        print(
            f"{'trace':<24} {'policy':<6} {'jobs':>7} {'util':>6} {'mean wait':>10} "
            f"{'of light':>10} {'p99':>8} "
            f"{'longest':>8} {'slowdown':>9} {'fair/speed':>10} {'fair/slow':>9}"
        )
        for trace in traces:
            by_policy = {name: next(found) for name in POLICIES}
            for name, measures in by_policy.items():
                print(_row(trace, name, measures), flush=True)
            yield from _bars(trace, by_policy)


def _replay(run: tuple[Trace, Policy]) -> Measures:
    trace, policy = run
    return measure(Replay(trace, policy).run())


def _row(trace: Trace, name: str, found: Measures) -> str:
    return (
        f"{trace.name:<24} {name:<6} {len(trace.jobs):>7} {found.utilisation:>6.3f} "
        f"{found.mean_wait_seconds / 60:>6.1f} min {found.light_wait_seconds / 60:>6.1f} min "
        f"{found.p99_wait_seconds / _HOUR:>6.1f} h "
        f"{found.max_wait_seconds / _HOUR:>6.1f} h {found.bounded_slowdown:>9.1f} "
        f"{found.fairness_speed:>10.3f} {found.fairness_slowdown:>9.3f}"
    )


def _bars(trace: Trace, found: dict[str, Measures]) -> Iterator[Bar]:
    """Yield what is demanded of our policy.

    The longest wait has a bound by construction: a job that has waited as long as its bucket may is
    served in order of submission from then on. So it never exceeds that limit and the longest wait
    under strict first come, first served together.
    """
    name = trace.name.replace(" ", "_")
    fifo, easy, ours = found["FIFO"], found["EASY"], found["ours"]
    aged_seconds = POLICIES["ours"].max_wait_seconds[2]
    assert aged_seconds is not None
    yield Bar(
        name=f"{name}_mean_wait_to_easy",
        value=ours.mean_wait_seconds / max(easy.mean_wait_seconds, 1.0),
        most=1.0,
    )
    yield Bar(
        name=f"{name}_longest_wait_to_bound",
        value=ours.max_wait_seconds / (fifo.max_wait_seconds + aged_seconds),
        most=1.0,
    )


def _time_cycles(num_jobs: int) -> Iterator[Bar]:
    print(f"\n{num_jobs:,} jobs queued, medians:")
    slowest = 0.0
    for name, milliseconds in cycle_times(num_jobs):
        print(f"  {name:<40} {milliseconds:>8.2f} ms")
        if name.startswith("cycle,") and "explained" not in name:
            slowest = max(slowest, milliseconds)
    print()
    yield Bar(name=f"cycle_ms_at_{num_jobs}_queued", value=slowest, most=50.0)


if __name__ == "__main__":
    sys.exit(main())
