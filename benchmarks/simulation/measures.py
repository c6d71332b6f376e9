"""What a schedule is judged by.

Source: Feitelson, Metrics for parallel job scheduling and their convergence, 2001 (bounded
slowdown, with a bound of 10 s); Jain, Chiu and Hawe, A quantitative measure of fairness, 1984 (the
index).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.simulation.replay import Outcome

_SLOWDOWN_BOUND_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """Figures of one schedule.

    Attributes:
        utilisation: Work done over what the cluster could do, first submission to last end.
        mean_wait_seconds: Mean over jobs.
        light_wait_seconds: Mean over jobs of the half of the users who ask for least.
        p99_wait_seconds: The wait that one job in a hundred exceeds.
        max_wait_seconds: The longest.
        bounded_slowdown: Mean of (wait + run) over run, runs taken as at least 10 s.
        fairness_speed: Jain's index over users of the mean of run over (wait + run), the part of
            full speed that they get; 1 serves all alike.
        fairness_slowdown: The same of their mean bounded slowdown, which one user with very short
            jobs decides.
    """

    utilisation: float
    mean_wait_seconds: float
    light_wait_seconds: float
    p99_wait_seconds: float
    max_wait_seconds: float
    bounded_slowdown: float
    fairness_speed: float
    fairness_slowdown: float


def measure(outcome: Outcome) -> Measures:
    """Return the figures of a schedule."""
    jobs = outcome.trace.jobs
    submit = np.array([job.submit_seconds for job in jobs])
    run = np.array([job.run_seconds for job in jobs])
    size = np.array([job.num_systems for job in jobs])
    user = np.unique(np.array([job.user for job in jobs]), return_inverse=True)[1]
    wait = outcome.start_seconds - submit
    assert (wait >= 0).all(), "a job started before it was submitted"
    span = float((outcome.start_seconds + run).max() - submit.min())
    least = np.maximum(run, _SLOWDOWN_BOUND_SECONDS)
    slowdown = np.maximum((wait + run) / least, 1.0)
    num_jobs = np.bincount(user)
    work = np.bincount(user, run * size)
    is_light = work <= np.median(work)
    return Measures(
        utilisation=float((run * size).sum()) / (outcome.trace.num_systems * span),
        mean_wait_seconds=float(wait.mean()),
        light_wait_seconds=float(wait[is_light[user]].mean()),
        p99_wait_seconds=float(np.quantile(wait, 0.99)),
        max_wait_seconds=float(wait.max()),
        bounded_slowdown=float(slowdown.mean()),
        fairness_speed=_jain(np.bincount(user, run / (run + wait)) / num_jobs),
        fairness_slowdown=_jain(np.bincount(user, slowdown) / num_jobs),
    )


def _jain(amounts: NDArray[np.float64]) -> float:
    return float(amounts.sum() ** 2 / (len(amounts) * (amounts**2).sum()))
