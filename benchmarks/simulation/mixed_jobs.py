"""Seeded training jobs as their clients run them: sessions of steps, evaluations, ends of kinds.

Users submit sweeps of one program, whose runs differ by the machine's noise, and programs that run
once. Each trains in one session; some evaluate in further ones. Some are fed more slowly than they
compute, some fail and some are cancelled, running or waiting.
"""

import math
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

_NUM_USERS = 8
_SIZES, _SIZE_ODDS = (1, 2, 4), (0.6, 0.25, 0.15)
_PRIORITIES, _PRIORITY_ODDS = (50, 150, 299, 350), (0.03, 0.12, 0.7, 0.15)
_SWEEPS, _SWEEP_ENDS = 0.6, 0.15
_FED_SLOWLY = 0.25
_FAILS, _CANCELLED = 0.06, 0.06
_RUN_NOISE = 0.04
_PREFETCHED = 4
"""Batches that are there when the steps begin."""


class End(StrEnum):
    """How a job ends."""

    SUCCEEDS = "succeeds"
    FAILS = "fails"
    CANCELLED = "is cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedSession:
    """One session of a job.

    Attributes:
        wait_seconds: From the end of what came before to its first step.
        first_step_seconds: Its first step, in which code is compiled.
        step_seconds: Each other step, by the systems.
        batch_seconds: What the dataloader takes for a batch.
        num_steps: Steps.
        fetch_seconds: From its last step to its end: values and a checkpoint are fetched.
    """

    wait_seconds: float
    first_step_seconds: float
    step_seconds: float
    batch_seconds: float
    num_steps: int
    fetch_seconds: float

    @property
    def seconds(self) -> float:
        """Its steps, about."""
        return self.first_step_seconds + self.num_steps * max(self.step_seconds, self.batch_seconds)

    def completion_seconds(self, step: int) -> float:
        """Return when a step, from 1, is complete, since the begin of the steps."""
        fed = max(step - _PREFETCHED, 0) * self.batch_seconds
        return max(self.first_step_seconds + (step - 1) * self.step_seconds, fed)

    def num_batches(self, elapsed_seconds: float) -> int:
        """Return how many batches are loaded so long after the begin, if nobody waits for steps."""
        return _PREFETCHED + math.floor(elapsed_seconds / self.batch_seconds)

    def most_batches(self, completed_steps: int) -> int:
        """Return how many batches are loaded at most when so many steps are complete."""
        return min(completed_steps + _PREFETCHED, self.num_steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedJob:
    """A job of the trace.

    Attributes:
        submit_seconds: When it is submitted.
        user: Whose it is.
        program: What it runs.
        num_systems: Systems.
        priority: Priority value.
        limit_seconds: Its time limit; None if it has none.
        sessions: Its sessions.
        tail_seconds: From the end of its last session to its own.
        end: How it ends.
        lives: The part of its run after which it fails or is cancelled.
    """

    submit_seconds: float
    user: int
    program: int
    num_systems: int
    priority: int
    limit_seconds: float | None
    sessions: tuple[MixedSession, ...]
    tail_seconds: float
    end: End
    lives: float

    @property
    def run_seconds(self) -> float:
        """Its run, if nothing ends it before, about."""
        return self.tail_seconds + sum(
            each.wait_seconds + each.seconds + each.fetch_seconds for each in self.sessions
        )

    @property
    def cut_seconds(self) -> float:
        """After what time it is ended, if its client does not end it before; infinite for never."""
        lives = math.inf if self.end is End.SUCCEEDS else self.run_seconds * self.lives
        return min(lives, self.limit_seconds or math.inf)

    @property
    def whole_seconds(self) -> float:
        """Its run, if only its limit ends it before its client does."""
        whole = self.tail_seconds + sum(
            each.wait_seconds + each.completion_seconds(each.num_steps) + each.fetch_seconds
            for each in self.sessions
        )
        return min(whole, self.limit_seconds or math.inf)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Program:
    """What the runs of a program have in common."""

    user: int
    num_systems: int
    priority: int
    step_seconds: float
    batch_seconds: float
    num_steps: int
    num_evaluations: int
    tail_seconds: float
    limit_seconds: float | None


def mixed_jobs(*, seed: int, num_jobs: int, num_systems: int, load: float) -> tuple[MixedJob, ...]:
    """Return jobs in order of their submission.

    Args:
        seed: Same seed, same jobs.
        num_jobs: How many.
        num_systems: Systems of the cluster; no job needs more.
        load: Offered work over capacity, 1 being full.
    """
    rng = np.random.default_rng(seed)
    drafts: list[MixedJob] = []
    at = 0.0
    for number in range(num_jobs):
        at += float(rng.exponential(1.0))
        program = _program(rng, num_systems)
        size = int(rng.geometric(_SWEEP_ENDS)) if rng.random() < _SWEEPS else 1
        drafts += (_run(rng, at + 0.02 * run, number, program) for run in range(size))
        if len(drafts) >= num_jobs:
            break
    drafts = sorted(drafts[:num_jobs], key=lambda job: job.submit_seconds)
    work = sum(job.run_seconds * job.num_systems for job in drafts)
    stretch = work / (num_systems * load) / drafts[-1].submit_seconds
    return tuple(
        replace(job, submit_seconds=math.floor(job.submit_seconds * stretch)) for job in drafts
    )


def _program(rng: np.random.Generator, num_systems: int) -> _Program:
    step = float(np.exp(rng.normal(-0.7, 0.7)))
    is_fed_slowly = rng.random() < _FED_SLOWLY
    seconds = float(np.exp(rng.normal(4.5, 0.8)))
    batch = step * float(rng.uniform(1.0, 3.0)) if is_fed_slowly else 0.2 * step
    num_evaluations = int(rng.choice((0, 1, 3), p=(0.6, 0.25, 0.15)))
    return _Program(
        user=int(rng.integers(_NUM_USERS)),
        num_systems=min(int(rng.choice(_SIZES, p=_SIZE_ODDS)), num_systems),
        priority=int(rng.choice(_PRIORITIES, p=_PRIORITY_ODDS)),
        step_seconds=step,
        batch_seconds=batch,
        num_steps=max(int(seconds / max(step, batch)), 3),
        num_evaluations=num_evaluations,
        tail_seconds=float(rng.uniform(2.0, 9.0)),
        limit_seconds=math.ceil(seconds / 300 + 2) * 300.0 if rng.random() < 0.3 else None,
    )


def _run(rng: np.random.Generator, at: float, number: int, program: _Program) -> MixedJob:
    step = program.step_seconds * float(np.exp(rng.normal(0.0, _RUN_NOISE)))
    training = MixedSession(
        wait_seconds=float(rng.uniform(4.0, 8.0)),
        first_step_seconds=step + float(rng.uniform(1.0, 4.0)),
        step_seconds=step,
        batch_seconds=program.batch_seconds,
        num_steps=program.num_steps,
        fetch_seconds=float(rng.uniform(0.5, 3.0)),
    )
    evaluation = replace(
        training,
        wait_seconds=float(rng.uniform(3.0, 6.0)),
        step_seconds=step / 3,
        num_steps=max(program.num_steps // 10, 2),
    )
    odds = (1.0 - _FAILS - _CANCELLED, _FAILS, _CANCELLED)
    return MixedJob(
        submit_seconds=at,
        user=program.user,
        program=number,
        num_systems=program.num_systems,
        priority=program.priority,
        limit_seconds=program.limit_seconds,
        sessions=(training, *[evaluation] * program.num_evaluations),
        tail_seconds=program.tail_seconds * float(rng.uniform(0.8, 1.2)),
        end=End(rng.choice([end.value for end in End], p=odds)),
        lives=float(rng.uniform(0.02, 1.0)),
    )
