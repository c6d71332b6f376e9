"""Seeded synthetic traces as users make them: bursts of like jobs, padded limits, days, nights.

Run times are log-normal around the program's own; limits are the program's usual time, padded and
rounded up to a usual figure; one job in ten fails early; users' activity falls off as Zipf's law
has it.

Source for these shapes: Feitelson, Workload Modeling for Computer Systems Performance Evaluation,
2015, chapters 8 and 9. The figures are ours: sizes are those that the cluster's users may ask for.
"""

from typing import NamedTuple

import numpy as np

from benchmarks.simulation.trace import Trace, TraceJob

_HOUR = 3600.0
_DAY = 24 * _HOUR
_LIMITS = np.array([0.25, 0.5, 1, 2, 4, 8, 12, 24, 48]) * _HOUR
_SIZES = np.array([1, 2, 4, 8, 16])
_SIZE_ODDS = np.array([0.46, 0.22, 0.16, 0.11, 0.05])
_NUM_USERS = 60
_NUM_GROUPS = 6
_PROGRAMS_PER_USER = 8
_ENDS_BURST = 0.15
_FAILS_EARLY = 0.1
_DAILY_SWING = 0.6


class _Draft(NamedTuple):
    """A job before the load is known; `at` is in a unit of time that is settled last."""

    at: float
    run_seconds: float
    num_systems: int
    limit_seconds: float
    user: int
    program: int


def synthesise(*, seed: int, num_jobs: int, num_systems: int, load: float) -> Trace:
    """Make a trace.

    Args:
        seed: Same seed, same trace.
        num_jobs: Jobs.
        num_systems: Systems of the cluster; no job needs more.
        load: Offered work over capacity, 1 being full.
    """
    rng = np.random.default_rng(seed)
    activity = 1.0 / np.arange(1, _NUM_USERS + 1) ** 0.8
    users = rng.choice(_NUM_USERS, size=num_jobs, p=activity / activity.sum())
    drafts: list[_Draft] = []
    at = 0.0
    for user in users.tolist():
        at += float(rng.exponential(1.0))
        program = user * _PROGRAMS_PER_USER + int(rng.integers(_PROGRAMS_PER_USER))
        drafts += _burst(rng, at, user, program, seed=seed, num_systems=num_systems)
        if len(drafts) >= num_jobs:
            break
    jobs = _at_load(sorted(drafts[:num_jobs]), num_systems, load)
    return Trace(name=f"seed {seed} load {load:.2f}", num_systems=num_systems, jobs=jobs)


def _burst(
    rng: np.random.Generator, at: float, user: int, program: int, *, seed: int, num_systems: int
) -> list[_Draft]:
    """Draw runs of one program, submitted one after the other."""
    of_program = np.random.default_rng((seed, program))
    usual = float(np.clip(np.exp(of_program.normal(7.6, 1.3)), 60, 8 * _HOUR))
    odds = _SIZE_ODDS * (num_systems >= _SIZES)
    size = int(of_program.choice(_SIZES, p=odds / odds.sum()))
    padded = usual * float(of_program.uniform(1.5, 8.0))
    limit = float(_LIMITS[min(int(np.searchsorted(_LIMITS, padded)), len(_LIMITS) - 1)])
    drafts = []
    for _ in range(int(rng.geometric(_ENDS_BURST))):
        run = usual * float(np.exp(rng.normal(0.0, 0.35)))
        if rng.random() < _FAILS_EARLY:
            run *= float(rng.uniform(0.005, 0.2))
        drafts.append(_Draft(at, float(np.clip(run, 5, limit)), size, limit, user, program))
        at += float(rng.exponential(0.05))
    return drafts


def _at_load(drafts: list[_Draft], num_systems: int, load: float) -> tuple[TraceJob, ...]:
    """Stretch the times of submission to the load that is asked for, and crowd them by day."""
    work = sum(draft.run_seconds * draft.num_systems for draft in drafts)
    stretch = work / (num_systems * load) / drafts[-1].at
    at = np.array([draft.at for draft in drafts]) * stretch
    at += _DAILY_SWING * _DAY / (2 * np.pi) * np.sin(2 * np.pi * at / _DAY)
    return tuple(
        TraceJob(
            number=number,
            submit_seconds=float(np.floor(submit)),
            run_seconds=float(np.ceil(draft.run_seconds)),
            num_systems=draft.num_systems,
            requested_seconds=draft.limit_seconds,
            user=draft.user,
            group=draft.user % _NUM_GROUPS,
            program=draft.program,
        )
        for number, (submit, draft) in enumerate(zip(at.tolist(), drafts, strict=True), start=1)
    )
