"""What a schedule is judged by.

Source: Feitelson, Metrics for parallel job scheduling and their convergence, 2001 (bounded slowdown, with
a bound of 10 s); Jain, Chiu and Hawe, A quantitative measure of fairness, 1984 (the index).
"""

from dataclasses import dataclass

import numpy as np

from benchmarks.simulation.replay import Outcome

_SLOWDOWN_BOUND_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """Figures of one schedule.

    Attributes:
        utilisation: Work done over what the cluster could do, first submission to last end.
        mean_wait_seconds: Mean over jobs.
        p99_wait_seconds: The wait that one job in a hundred exceeds.
        max_wait_seconds: The longest.
        bounded_slowdown: Mean of (wait + run) over run, runs taken as at least 10 s.
        fairness: Jain's index over users of their mean bounded slowdown; 1 slows all alike.
    """

    utilisation: float
    mean_wait_seconds: float
    p99_wait_seconds: float
    max_wait_seconds: float
    bounded_slowdown: float
    fairness: float


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
    by_user = np.bincount(user, slowdown) / np.bincount(user)
    return Measures(
        utilisation=float((run * size).sum()) / (outcome.trace.num_systems * span),
        mean_wait_seconds=float(wait.mean()),
        p99_wait_seconds=float(np.quantile(wait, 0.99)),
        max_wait_seconds=float(wait.max()),
        bounded_slowdown=float(slowdown.mean()),
        fairness=float(by_user.sum() ** 2 / (len(by_user) * (by_user**2).sum())),
    )
