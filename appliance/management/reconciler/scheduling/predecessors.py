"""Jobs that start only after the end of others: when they may start, and when they cannot."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from appliance.core.cluster.jobs import Phase
from appliance.core.dependencies import Dependency, Outcome
from appliance.core.ids import JobId

_ENDS: Mapping[Outcome, str] = {
    Outcome.SUCCESS: "had succeeded",
    Outcome.ANY: "had ended",
    Outcome.FAILURE: "had failed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """Where a job stands that follows others.

    Attributes:
        open: What has yet to come; without anything, and without a problem, it may start.
        problem: Why it can never start; empty if it can.
    """

    open: tuple[Dependency, ...] = ()
    problem: str = ""


def follow(after: Sequence[Dependency], phases: Mapping[JobId, Phase | None]) -> Following:
    """Return where a job stands.

    Args:
        after: What it waits for.
        phases: The phase of each job of that; None if the job is forgotten, which has then ended.
    """
    found = [_follow(each, phases) for each in after]
    if problem := next((each.problem for each in found if each.problem), ""):
        return Following(problem=problem)
    return Following(open=tuple(each for part in found for each in part.open))


def _follow(wanted: Dependency, phases: Mapping[JobId, Phase | None]) -> Following:
    live = [job for job in wanted.jobs if (phase := phases[job]) and not phase.is_terminal]
    ended = {job: phases[job] for job in wanted.jobs if job not in live}
    match wanted.outcome:
        case Outcome.SUCCESS:
            for job, phase in ended.items():
                if phase is not Phase.SUCCEEDED:
                    return _never(wanted, job, phase)
        case Outcome.FAILURE if not live:
            if not any(phase and phase is not Phase.SUCCEEDED for phase in ended.values()):
                job, phase = next(iter(ended.items()))
                return _never(wanted, job, phase)
        case Outcome.ANY:
            pass
        case Outcome.FAILURE:
            return Following(open=(wanted,))  # those that have ended count when all have
    return Following(open=(replace(wanted, jobs=tuple(live)),) if live else ())


def _never(wanted: Dependency, job: JobId, phase: Phase | None) -> Following:
    how = "is not known any more" if phase is None else f"is {phase.value}"
    return Following(problem=f"it was to start after {job} {_ENDS[wanted.outcome]}, which {how}")
