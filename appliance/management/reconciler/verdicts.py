"""How a job ends, and why in words: from a client's request, a report or the end of a pod. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from appliance.core.cluster.jobs import Phase
from appliance.core.ids import JobId, PodName, Role, pod_name
from appliance.core.pods.pod_spec import EXIT_COORDINATOR_FROZEN, EXIT_COORDINATOR_LOST

_OF_COORDINATOR = {
    EXIT_COORDINATOR_LOST: "does not answer its pods any more",
    EXIT_COORDINATOR_FROZEN: "was frozen (stopped by a signal, or without processor time or "
    "memory) for too long",
}
"""What ends a pod, by its exit code, that is well itself."""

HOW_TO_GO_ON = (
    "Submit it again from its last checkpoint; runs submitted with `csctl submit` are started "
    "again by themselves."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How the job ends.

    Attributes:
        phase: The final phase.
        message: Why, for people.
        is_provisional: Whether the client's word may still replace it.
        is_inferred: Whether it was concluded from a pod's end; the coordinator's own report, which
            knows more, may then replace the message.
    """

    phase: Phase
    message: str
    is_provisional: bool = False
    is_inferred: bool = False

    # `Any`: values of a JSON object.
    def to_dict(self) -> dict[str, Any]:
        """Return it ready for JSON."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "Verdict":
        """Return what `to_dict` wrote."""
        return cls(**{**fields, "phase": Phase(fields["phase"])})


def lost_pod_verdict(  # noqa: PLR0917 - how a pod ended, from the start of the name to its words
    job: JobId, pod: PodName, role: Role, exit_code: int, reason: str, last_words: str = ""
) -> Verdict:
    """Return how a job ends of which a pod was lost; concluded, so that a report may replace it.

    Args:
        role: The pod's role.
        exit_code: How the pod ended. Some codes say that the pod was well and its coordinator lost.
        reason: The same in words.
        last_words: The last error that a driver's script printed; empty if it printed nothing.
    """
    if role is Role.DRIVER:
        its_log = f"the script {reason}; its log is that of {pod}"
        message = f"{last_words} (the script {reason})" if last_words else its_log
        return Verdict(phase=Phase.FAILED, message=message, is_inferred=True)
    if exit_code in _OF_COORDINATOR and role is not Role.COORDINATOR:
        reason = f"{_OF_COORDINATOR[exit_code]} ({pod} has given it up)"
        pod = pod_name(job, Role.COORDINATOR, 0)
    message = (
        f"job has failed because total 1 replica(s) failed, first failed pods: [{pod}]: {reason}"
    )
    return Verdict(phase=Phase.FAILED, message=message, is_inferred=True)


def with_advice(verdict: Verdict) -> Verdict:
    """Return a verdict that also says how a run goes on that did nothing wrong."""
    return replace(verdict, message=f"{verdict.message}. {HOW_TO_GO_ON}")


def with_reason(verdict: Verdict, reason: str) -> Verdict:
    """Return a verdict that also contains the client's reason for it."""
    if reason in verdict.message:
        return verdict
    return replace(verdict, message=f"{reason}; then its client ended it: {verdict.message}")
