"""The scheduling policy, as administrators set it."""

from dataclasses import dataclass
from enum import StrEnum

HOUR = 3600.0
DAY = 24 * HOUR

BUCKET_WIDTH = 100
"""Priority values of one bucket: P0 is 0 to 99, P3 is 300 to 399."""

ADMIN_BUCKET_END = 100
"""Values below this one are P0, which administrators alone may give."""


class BackfillOrder(StrEnum):
    """The order in which candidates for backfill are tried."""

    NONE = "none"
    QUEUE = "queue"
    SHORTEST = "shortest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How the scheduler decides.

    Attributes:
        backfill: Whether jobs may pass a blocked one without delaying it, and in which order they
            are tried: as they stand in the queue, or the shortest first (by what is learned of its
            like), which lowers the mean wait. `none` is strict first come, first served.
        backfill_depth: Number of candidates that one cycle examines closely, so that a long queue
            does not make it slow. 500 jobs fill any cluster that we know of.
        uses_fair_share: Whether, within equal priority, accounts that had less than their share go
            first. Users of one session share its part alike.
        half_life_seconds: After this time, past use counts half; a week, as is usual.
        max_wait_seconds: For P0 to P3, how long a job may wait before it is served first come,
            first served ahead of everything but P0; None never. It bounds the wait of large gangs
            and of accounts beyond their share.
        allows_preemption: Whether a blocked job may stop jobs of a lower bucket that can go on
            from a checkpoint. Off by default: it costs the victim what it did since then.
        reclaims_borrowed: With preemption, whether a session may take back its own quota from
            sessions that borrowed it, also at equal priority.
        default_execute_seconds: Run time assumed of an execute job or a driver that has no limit
            and no history.
        default_compile_seconds: The same for a compile job; most take 15 to 60 minutes.
        driver_share: Part of the memory of management nodes that drivers may hold together. They
            wait for jobs of their own, whose coordinators need such memory, so they must never
            hold all of it.
        max_lookups: Number of compile jobs that may run at a time without holding memory for
            compiling: they look into the compile cache and, after a miss, wait for that memory.
            Each is a process of about ten megabytes.
        max_user_lookups: The same for one user.
        plan_depth: Number of waiting jobs whose expected start is planned individually; the others
            get an estimate from the work ahead of them.
    """

    backfill: BackfillOrder = BackfillOrder.SHORTEST
    backfill_depth: int = 500
    uses_fair_share: bool = True
    half_life_seconds: float = 7 * DAY
    max_wait_seconds: tuple[float | None, float | None, float | None, float | None] = (
        None,
        DAY,
        2 * DAY,
        4 * DAY,
    )
    allows_preemption: bool = False
    reclaims_borrowed: bool = True
    default_execute_seconds: float = DAY
    default_compile_seconds: float = HOUR
    driver_share: float = 0.5
    max_lookups: int = 32
    max_user_lookups: int = 8
    plan_depth: int = 100

    def __post_init__(self) -> None:
        seconds = (
            self.half_life_seconds,
            self.default_execute_seconds,
            self.default_compile_seconds,
            *(limit for limit in self.max_wait_seconds if limit is not None),
        )
        if min(seconds) <= 0:
            raise ValueError(f"Every time of a policy is above 0 seconds, not {min(seconds)}.")
        if not 0 < self.driver_share < 1:
            raise ValueError(f"A share of drivers is between 0 and 1, not {self.driver_share}.")
        limits = (self.backfill_depth, self.plan_depth, self.max_lookups, self.max_user_lookups)
        if min(limits) < 1:
            raise ValueError("The depths and numbers of a policy are at least 1.")


FIRST_COME = Policy(
    backfill=BackfillOrder.NONE, uses_fair_share=False, max_wait_seconds=(None, None, None, None)
)
"""Strict first come, first served within a priority."""

EASY = Policy(
    backfill=BackfillOrder.QUEUE, uses_fair_share=False, max_wait_seconds=(None, None, None, None)
)
"""First come, first served with EASY backfill, the usual yardstick.

Source: Lifka, The ANL/IBM SP scheduling system, 1995; Mu'alem and Feitelson, Utilization,
predictability, workloads, and user runtime estimates in scheduling the IBM SP2 with backfilling,
2001.
"""


def bucket_of(priority: int) -> int:
    """Return the number of the bucket, 0 to 3, that a priority value lies in."""
    return priority // BUCKET_WIDTH
