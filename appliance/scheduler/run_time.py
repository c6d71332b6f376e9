"""How long a job will run: its own limit, else the time of similar jobs, else a default.

When a running job ends is known better from its own steps and sessions, see
`snapshot.ClusterSnapshot.expected_end`.

There are two numbers. Promised starts rest on the *bound*: a job that overruns a guess must not
delay a promised start. The *expected* time orders candidates and is shown to users; it is the mean
of the last two runs of the program, which is more accurate than what users request, and of a new
program what `new_programs` makes of the others.

Source: Tsafrir, Etsion and Feitelson, Backfilling using system-generated predictions rather than
user runtime estimates, IEEE TPDS 18(6), 2007. We differ: predictions never shorten a bound that a
user gave, and the last two runs are the program's, not the user's, since programs are known here.
"""

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import zip_longest
from typing import NamedTuple

from appliance.core.cluster.jobs import JobType
from appliance.core.cluster.run import Aftermath
from appliance.core.quick_init import quick_init
from appliance.scheduler.new_programs import NewPrograms
from appliance.scheduler.policy import Policy

_RUNS_KEPT = 8
_RUNS_AVERAGED = 2
_BOUND_MARGIN = 1.5
_MIN_SECONDS = 1.0
_ENDS_ASSUMED, _ENDS_AVERAGED = 8, 256
USUAL_AFTERMATH = Aftermath(tail_seconds=5.0)
"""Of a user of whom nothing is known: clients take 3 to 9 s for their last values and their end."""


class Basis(StrEnum):
    """What a run time estimate rests on."""

    STEPS = "its own steps"
    SESSIONS = "its own sessions"
    LIMIT = "time limit"
    PROGRAM = "earlier runs of the program"
    USER = "earlier runs of the user"
    OTHERS = "earlier runs of other users"
    DEFAULT = "default"


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """How long a job will run.

    Attributes:
        expected_seconds: Most likely.
        bound_seconds: At most, as far as is known.
        basis: What the expected time rests on.
        is_bound_known: Whether the bound is the job's own limit, or learned from its own program.
            The user's other programs and the default are too uncertain to backfill on.
        aftermath: How long it goes on after its sessions: by earlier runs of its program, else by
            the end of the user's other clients, else as is usual.
    """

    expected_seconds: float
    bound_seconds: float
    basis: Basis
    is_bound_known: bool = True
    aftermath: Aftermath = USUAL_AFTERMATH

    @property
    def known_bound_seconds(self) -> float:
        """The bound, or infinity if it is a guess: a guessed bound never justifies backfilling."""
        return self.bound_seconds if self.is_bound_known else math.inf


class Origin(NamedTuple):
    """Whose job and which program: jobs of one origin are expected to run alike.

    An empty `program` stands for any of the user's jobs.
    """

    user: str
    program: str
    type: JobType


class _Run(NamedTuple):
    seconds: float
    aftermath: Aftermath | None


class _Spent(NamedTuple):
    """What part of its length a run takes on average, and of how many ends that is the mean."""

    share: float = 1.0
    num_ends: int = _ENDS_ASSUMED

    def and_one(self, share: float) -> "_Spent":
        """Return the same after one more end; of the last few hundred each counts about alike."""
        num_ends = min(self.num_ends + 1, _ENDS_AVERAGED)
        return _Spent(self.share + (share - self.share) / num_ends, num_ends)


class RunHistory:
    """Run times of finished jobs, by origin, and what part of them jobs that are cut short take.

    Args:
        policy: Gives the defaults.
    """

    def __init__(self, policy: Policy | None = None) -> None:
        policy = policy or Policy()
        self._default_seconds = {
            JobType.COMPILE: policy.default_compile_seconds,
            JobType.EXECUTE: policy.default_execute_seconds,
            JobType.DRIVER: policy.default_execute_seconds,
            JobType.SDK_COMPILE: policy.default_compile_seconds,
            JobType.SDK_EXECUTE: policy.default_execute_seconds,
        }
        self._runs: dict[Origin, deque[_Run]] = {}
        self._new_programs = NewPrograms()
        self._estimates: dict[Origin, Estimate] = {}
        self._estimates_of_new: dict[Origin, Estimate] = {}
        self._spent: dict[JobType, _Spent] = {}

    def observe(
        self,
        user: str,
        program: str,
        job_type: JobType,
        seconds: float,
        aftermath: Aftermath | None = None,
    ) -> None:
        """Record what a job that succeeded took.

        Args:
            user: Whose it was.
            program: What it ran.
            seconds: Its run time.
            aftermath: How long it went on after its sessions; None if it had none.
        """
        seconds = max(seconds, _MIN_SECONDS)
        for name in (program, "") if program else ("",):
            origin = Origin(user, name, job_type)
            runs = self._runs.setdefault(origin, deque(maxlen=_RUNS_KEPT))
            runs.append(_Run(seconds, aftermath))
            self._estimates.pop(origin, None)
            self._estimates_of_new.pop(origin, None)
        version = self._new_programs.version
        self._new_programs.observe(user, program, job_type, seconds)
        if self._new_programs.version != version:
            self._estimates_of_new.clear()
        self._spend(job_type, 1.0)

    def observe_cut(self, user: str, program: str, job_type: JobType, seconds: float) -> None:
        """Record what a job took that failed or was cancelled while it ran.

        How long it would have run is known of a program, or at least a user, that has run before;
        of others nothing is learned.
        """
        whole = self._learned(user, program, job_type)
        if whole.basis in (Basis.PROGRAM, Basis.USER):
            self._spend(job_type, min(seconds / whole.expected_seconds, 1.0))

    def _spend(self, job_type: JobType, share: float) -> None:
        spent = self._spent.get(job_type.queue_type, _Spent())
        self._spent[job_type.queue_type] = spent.and_one(share)

    def spent_share(self, job_type: JobType) -> float:
        """Return what part of its run time a job takes on average, 1 if none is ever cut short."""
        return self._spent.get(job_type.queue_type, _Spent()).share

    @property
    def version_of_all(self) -> int:
        """Changes when an estimate has changed of jobs whose user has not run what is observed."""
        return self._new_programs.version

    def knows(self, user: str, program: str, job_type: JobType) -> bool:
        """Whether a job with exactly this program has run."""
        return bool(program) and Origin(user, program, job_type) in self._runs

    def estimate(
        self, user: str, program: str, job_type: JobType, limit_seconds: float | None = None
    ) -> Estimate:
        """Return how long a job of this origin will run, given its own limit if it has one."""
        learned = self._learned(user, program, job_type)
        if limit_seconds is None:
            return learned
        if learned.basis is Basis.DEFAULT or learned.expected_seconds >= limit_seconds:
            return Estimate(
                expected_seconds=limit_seconds,
                bound_seconds=limit_seconds,
                basis=Basis.LIMIT,
                aftermath=learned.aftermath,
            )
        return Estimate(
            expected_seconds=learned.expected_seconds,
            bound_seconds=limit_seconds,
            basis=learned.basis,
            aftermath=learned.aftermath,
        )

    def _learned(self, user: str, program: str, job_type: JobType) -> Estimate:
        origin = Origin(user, program, job_type)
        if (known := self._estimates.get(origin)) is not None:
            return known
        if runs := self._runs.get(origin):
            known = self._estimates[origin] = _learned_of(runs, is_program=bool(program))
            return known
        of_user = Origin(user, "", job_type)
        if (known := self._estimates_of_new.get(of_user)) is None:
            known = self._estimates_of_new[of_user] = self._learned_of_new(of_user)
        return known

    def _learned_of_new(self, of_user: Origin) -> Estimate:
        """Return how long a program that has not run will run of a user."""
        default = self._default_seconds[of_user.type]
        expected = self._new_programs.expected_seconds(of_user.user, of_user.type)
        if expected is not None and (runs := self._runs.get(of_user)):
            return replace(_learned_of(runs, is_program=False), expected_seconds=expected)
        return Estimate(
            expected_seconds=default if expected is None else expected,
            bound_seconds=default,
            basis=Basis.DEFAULT if expected is None else Basis.OTHERS,
            is_bound_known=False,
        )


def _learned_of(runs: Sequence[_Run], *, is_program: bool) -> Estimate:
    """Return what the last runs of a program, or of a user, foretell of the next one."""
    last = [run.seconds for run in list(runs)[-_RUNS_AVERAGED:]]
    return Estimate(
        expected_seconds=sum(last) / len(last),
        bound_seconds=max(run.seconds for run in runs) * _BOUND_MARGIN,
        basis=Basis.PROGRAM if is_program else Basis.USER,
        is_bound_known=is_program,
        aftermath=_aftermath(runs, knows_program=is_program),
    )


def _aftermath(runs: Iterable[_Run], *, knows_program: bool) -> Aftermath:
    """Return what the last runs foretell; other programs only tell how a client ends."""
    known = [run.aftermath for run in runs if run.aftermath is not None][-_RUNS_AVERAGED:]
    if not known:
        return USUAL_AFTERMATH
    tail = sum(each.tail_seconds for each in known) / len(known)
    if not knows_program:
        return Aftermath(tail_seconds=tail)
    rests = zip_longest(*(each.rests_seconds for each in known))
    told = ([rest for rest in each if rest is not None] for each in rests)
    return Aftermath(rests_seconds=tuple(sum(each) / len(each) for each in told), tail_seconds=tail)
