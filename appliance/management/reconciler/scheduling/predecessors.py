"""Jobs that start only after others have succeeded: when they may start, and when they cannot."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from appliance.core.cluster.jobs import Phase
from appliance.core.ids import JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """Where a job stands that follows others.

    Attributes:
        open: Those that have yet to end; without any, and without a problem, it may start.
        problem: Why it can never start; empty if it can.
    """

    open: tuple[JobId, ...] = ()
    problem: str = ""


def follow(after: Sequence[JobId], phases: Mapping[JobId, Phase | None]) -> Following:
    """Return where a job stands.

    Args:
        after: The jobs that it follows.
        phases: The phase of each; None if the job is forgotten.
    """
    for job in after:
        phase = phases[job]
        if phase is None or (phase.is_terminal and phase is not Phase.SUCCEEDED):
            how = "is not known any more" if phase is None else f"is {phase.value}"
            return Following(problem=f"it was to start after {job} had succeeded, which {how}")
    return Following(open=tuple(job for job in after if phases[job] is not Phase.SUCCEEDED))
