"""Measures expected starts: `make bench-starts`, or `python -m benchmarks.expected_starts`.

Replays mixed jobs on virtual time (sweeps, programs that run once, evaluations, failures, cancels,
four priorities) through the scheduler and all that its forecasts rest on, asks every half minute
when each waiting job will start, and compares that with when it did. Errors count beyond 5 s.
Prints tables for people, then one line per bar (`name value bar ok|MISSED`); the exit code is 1 if
one is missed.

An answer is judged by the part of the wait that was left when it was given. A job is judged by two
parts of its whole wait: the error of the first answer, which cannot know who comes later, and the
mean error of all that it was shown while it waited.

Whoever is *next* waits for running jobs alone. Before the others jobs start that nobody has seen
yet, or that fair share prefers once their users' others have run.

Two more rows say what no estimate of run times can better: *whole* knows how long each job takes
unless it fails or is cancelled, *known* knows that, too. Neither knows who will submit what. The
90th percentile is held against that of *whole*.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np

from benchmarks.queue_simulator import Bar
from benchmarks.simulation.mixed_jobs import mixed_jobs
from benchmarks.simulation.run_replay import Answer, Replayed, RunReplay

LOAD = 0.5
NUM_SYSTEMS = 8
_TOLERATED_SECONDS = 5.0
_MEDIAN, _P90 = 0.10, 0.30
_P90_BEYOND_WHOLE = 0.15
_SHOWN_P90 = 0.30
_TOLD, _WHOLE, _KNOWN = "start_seconds", "whole_seconds", "known_seconds"
_LATER = ("which waits too", "work of all jobs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """How wrong some answers were.

    Attributes:
        num_answers: How many.
        wait_seconds: The median of the waits that were left.
        error_seconds: The median of the errors.
        median: The median of the parts of the waits by which they were wrong beyond 5 s.
        p90: What a tenth of these parts exceeds.
    """

    num_answers: int
    wait_seconds: float
    error_seconds: float
    median: float
    p90: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JobErrors:
    """How wrong what jobs were told was, as parts of their whole waits, beyond 5 s.

    Attributes:
        num_jobs: How many were told anything.
        first: The median and the 90th percentile of the errors of the first answers.
        shown: The same of each job's mean error over its answers.
    """

    num_jobs: int
    first: tuple[float, float]
    shown: tuple[float, float]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--jobs", type=int, default=300, help="jobs of a replay")
    parser.add_argument(
        "--seeds", type=int, nargs="*", default=[1, 2, 3, 4], help="one replay each"
    )
    parser.add_argument("--processes", type=int, default=2, help="replays at a time")
    options = parser.parse_args(arguments)
    with ProcessPoolExecutor(options.processes) as pool:
        runs = list(pool.map(_replay_foreseen, options.seeds, [options.jobs] * len(options.seeds)))
    bars = list(_bars(options.seeds, runs))
    for bar in bars:
        print(bar)
    return 0 if all(bar.is_met for bar in bars) else 1


def replay(seed: int, num_jobs: int, *, foresees: bool = False) -> Replayed:
    """Replay the jobs of a seed; if asked for, with what those know who know the jobs."""
    jobs = mixed_jobs(seed=seed, num_jobs=num_jobs, num_systems=NUM_SYSTEMS, load=LOAD)
    return RunReplay(jobs, NUM_SYSTEMS, foresees=foresees).run()


def _replay_foreseen(seed: int, num_jobs: int) -> Replayed:
    return replay(seed, num_jobs, foresees=True)


def _bars(seeds: Sequence[int], runs: Sequence[Replayed]) -> Iterator[Bar]:
    print(
        f"{'seed':<6} {'who':<6} {'answers':>8} {'wait':>8} {'error':>8} {'median':>7} {'p90':>6}"
    )
    for seed, run in zip(seeds, runs, strict=True):
        print(_row(str(seed), "next", errors([run], only_next=True)))
        print(_row(str(seed), "all", errors([run])))
        for line in run.contradictions[:10]:
            print(line)
    contradictions = sum(len(run.contradictions) for run in runs)
    yield Bar(name="expected_starts_contradictions", value=contradictions, most=0)
    yield from _bars_of_jobs(runs)
    for who, only_next in (("next", True), ("all", False)):
        told, whole, known = (
            errors(runs, only_next=only_next, of=of) for of in (_TOLD, _WHOLE, _KNOWN)
        )
        print(_row("told", who, told))
        print(_row("whole", who, whole))
        print(_row("known", who, known))
        yield Bar(name=f"expected_starts_{who}_median", value=told.median, most=_MEDIAN)
        most = max(whole.p90 + _P90_BEYOND_WHOLE, _P90)
        yield Bar(name=f"expected_starts_{who}_p90", value=told.p90, most=most)


def _bars_of_jobs(runs: Sequence[Replayed]) -> Iterator[Bar]:
    by_who = {"told": _TOLD, "whole": _WHOLE, "known": _KNOWN}
    found = {who: job_errors(runs, of=of) for who, of in by_who.items()}
    print(f"{'jobs':<6} {'number':>7} {'first':>13} {'shown':>13}")
    for who, each in found.items():
        first, shown = (f"{median:.3f} {p90:.3f}" for median, p90 in (each.first, each.shown))
        print(f"{who:<6} {each.num_jobs:>7,} {first:>13} {shown:>13}")
    median, p90 = found["told"].shown
    yield Bar(name="expected_starts_shown_median", value=median, most=_MEDIAN)
    yield Bar(name="expected_starts_shown_p90", value=p90, most=_SHOWN_P90)


def _row(seed: str, who: str, found: Errors) -> str:
    return (
        f"{seed:<6} {who:<6} {found.num_answers:>8,} {found.wait_seconds:>6.0f} s "
        f"{found.error_seconds:>6.0f} s {found.median:>7.3f} {found.p90:>6.3f}"
    )


def errors(runs: Iterable[Replayed], *, only_next: bool = False, of: str = _TOLD) -> Errors:
    """Return how wrong the answers were about jobs that have started.

    Args:
        runs: The replays.
        only_next: Of jobs that waited for running jobs alone.
        of: Whose answers, by the attribute of `Answer` that has them.
    """
    answered = (each for run in runs for each in _answered(run, of))
    told = [each for each in answered if not (only_next and _is_later(each[0]))]
    if not told:
        return Errors(num_answers=0, wait_seconds=0.0, error_seconds=0.0, median=0.0, p90=0.0)
    wait = np.array([start - answer.asked_seconds for answer, start, _ in told])
    error = np.abs([expected - start for _, start, expected in told])
    part = np.maximum(error - _TOLERATED_SECONDS, 0.0) / np.maximum(wait, 1.0)
    return Errors(
        num_answers=len(told),
        wait_seconds=float(np.median(wait)),
        error_seconds=float(np.median(error)),
        median=float(np.median(part)),
        p90=float(np.quantile(part, 0.9)),
    )


def job_errors(runs: Iterable[Replayed], *, of: str = _TOLD) -> JobErrors:
    """Return how wrong what jobs were told was, of those that have started.

    Args:
        runs: The replays.
        of: Whose answers, by the attribute of `Answer` that has them.
    """
    first, shown = [], []
    for run in runs:
        by_job: dict[int, list[float]] = {}
        for answer, start, expected in _answered(run, of):
            by_job.setdefault(answer.job, []).append(abs(expected - start))
        for job, wrong in by_job.items():
            started = run.starts_seconds[job]
            assert started is not None
            wait = max(started - run.submits_seconds[job], 1.0)
            first.append(max(wrong[0] - _TOLERATED_SECONDS, 0.0) / wait)
            shown.append(max(float(np.mean(wrong)) - _TOLERATED_SECONDS, 0.0) / wait)
    return JobErrors(num_jobs=len(first), first=_quantiles(first), shown=_quantiles(shown))


def _quantiles(parts: Sequence[float]) -> tuple[float, float]:
    """Return the median and the 90th percentile; 0 of nothing."""
    if not parts:
        return 0.0, 0.0
    return float(np.median(parts)), float(np.quantile(parts, 0.9))


def _answered(run: Replayed, of: str) -> Iterator[tuple[Answer, float, float]]:
    """Yield each answer with the start that came and the one that was expected."""
    for answer in run.answers:
        start, expected = run.starts_seconds[answer.job], getattr(answer, of)
        if start is not None and expected is not None:
            yield answer, start, expected


def _is_later(answer: Answer) -> bool:
    return any(words in answer.basis for words in _LATER)


if __name__ == "__main__":
    sys.exit(main())
