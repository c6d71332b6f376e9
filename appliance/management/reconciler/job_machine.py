"""A job's life as a pure function: (state, event) -> (state, actions).

        QUEUED --Admitted--> SCHEDULED --Launched--> INITIALIZING --CoordinatorReady--> RUNNING

From any of these a *verdict* (succeeded, failed, cancelled) may be reached: the client says so, a
pod dies, a lease expires. The verdict does not end the job yet: its coordinator is told and gets
some seconds in which the client can learn of it, then every pod is stopped; the final phase is
entered when nothing of the job runs any more. A job that fails while it holds resources is FAILING
until then.

The verdict may also be that the job goes back into the queue: it was preempted, or suspended. If
its client ends it then, that still counts. A driver has no coordinator: it runs as soon as its pod
does, and ends with its pod; if the pod was lost and the user's policy says so, it is queued again.

Where jobs are not to fail because a pod was taken away (a *disruption*), a driver is queued again,
and so is a job whose client has no coordinator yet and misses nothing. Any other job fails: its
client cannot go on with another run, which would hold systems in vain.

A verdict is *provisional* when the coordinator ended in order before the client said how the run
went; the client's result, if it comes in time, replaces it.
"""

from dataclasses import dataclass
from typing import assert_never

from appliance.core.changed_values import changed
from appliance.core.cluster.jobs import JobType, Phase
from appliance.core.ids import JobId, PodName, Role
from appliance.core.pods.end_cause import EndCause
from appliance.core.quick_init import quick_init
from appliance.management.reconciler.verdicts import (
    Verdict,
    lost_pod_verdict,
    with_advice,
    with_reason,
)

FAILURE_GRACE_SECONDS = 5.0
"""From a failure to the kill: the client learns of it and calls UnaryDone and CancelJobV2."""

REPORT_GRACE_SECONDS = 20.0
"""The same when the coordinator itself reported the failure and so can answer the client."""

END_GRACE_SECONDS = 2.0
"""From an orderly end to the kill: the coordinator stops its pods in order."""

VERDICT_SECONDS = 5.0
"""How long a finished job waits for the client's word on how the run went."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """What decides about a job's next step.

    Attributes:
        verdict: How it will end; None while it goes on.
        is_coordinator_ready: Whether the coordinator listened before the launch was confirmed.
        is_finalized: Whether the client has what a compile job was for.
        is_stopping: Whether its pods are being stopped.
        is_stopped: Whether nothing of it runs any more, after it was launched.
    """

    job: JobId
    type: JobType
    phase: Phase
    verdict: Verdict | None = None
    is_coordinator_ready: bool = False
    is_finalized: bool = False
    is_stopping: bool = False
    is_stopped: bool = False

    @property
    def is_ending(self) -> bool:
        """Whether it is about to release its grant."""
        return self.verdict is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """The scheduler grants the job what it needs."""

    systems: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """The scheduler found that the job can never run."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """All pods were started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchFailed:
    """Not all pods could be started, so none was."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorReady:
    """The coordinator listens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileFinalized:
    """The client has what a compile job was for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """The coordinator reports the job's state."""

    phase: Phase
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PodExited:
    """A pod has ended; of a driver, `last_words` are the last error that its script printed."""

    pod: PodName
    role: Role
    exit_code: int
    reason: str
    cause: EndCause = EndCause.PROCESS
    is_disruption: bool = False
    """Whether somebody has taken it away, and its job is not to fail for that if it can go on."""
    revival: str = ""
    """For a driver's pod that was lost: why it is started again; empty if it is not."""
    last_words: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndRequested:
    """The client or an administrator ends the job."""

    phase: Phase
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseExpired:
    """The client has not been heard of for too long."""

    seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeElapsed:
    """The time that the last `Remind` asked for has passed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """Nothing of the job runs any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preempted:
    """The scheduler stops the job for one of higher priority; it is queued again."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitReached:
    """The job has held its resources for as long as it may."""

    seconds: float


Event = (
    Admitted
    | Rejected
    | Launched
    | LaunchFailed
    | CoordinatorReady
    | CompileFinalized
    | Reported
    | PodExited
    | EndRequested
    | LeaseExpired
    | TimeElapsed
    | Stopped
    | Preempted
    | LimitReached
)


_AfterLaunch = (
    Reported | PodExited | Stopped | TimeElapsed | CompileFinalized | Preempted | LimitReached
)


_MayBeLate = (
    Launched
    | LaunchFailed
    | CoordinatorReady
    | CompileFinalized
    | Reported
    | PodExited
    | EndRequested
    | LeaseExpired
    | TimeElapsed
    | Stopped
    | LimitReached
)
"""What others tell of a run that is over as they tell of it. The scheduler knows what is over."""


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Enter:
    """Store a new phase."""

    phase: Phase
    message: str = ""
    systems: tuple[str, ...] | None = None
    through: Phase | None = None
    """Phase that the job enters and leaves at once on its way, if it does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explain:
    """Store a better message for the present phase."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """Start the job's pods."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TellCoordinator:
    """Let the coordinator know that the job is to end."""

    reason: str
    is_failure: bool
    pod: str = ""
    is_preemption: bool = False
    """Whether the job did nothing wrong, and its client is told how to go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopPods:
    """End every process of the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remind:
    """Send `TimeElapsed` after some seconds; replaces an earlier request."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Unexpected:
    """Log that something happened which cannot happen in this state; the state stays."""

    event: Event


Effect = Explain | Launch | TellCoordinator | StopPods | Remind | Unexpected
Action = Enter | Effect
Step = tuple[JobState, tuple[Action, ...]]


def transition(state: JobState, event: Event) -> Step:
    """Return the state after an event, and what is to be done.

    An event that comes too late to matter (a pod's end while the job is stopped anyway, news of a
    run before the job was queued again) changes nothing. One that cannot happen in this state does
    not either, and is reported as `Unexpected`.
    """
    if state.phase.is_terminal or (_is_queued(state) and isinstance(event, _AfterLaunch)):
        return state, () if isinstance(event, _MayBeLate) else (Unexpected(event=event),)
    match event:
        case Admitted() | Rejected() | Launched() | LaunchFailed() | CoordinatorReady():
            return _on_start(state, event)
        case CompileFinalized():
            return changed(state, is_finalized=True), ()
        case Reported():
            return _on_report(state, event)
        case PodExited():
            return _on_pod_exit(state, event)
        case EndRequested() | LeaseExpired():
            return _on_end_request(state, _verdict_of_request(event))
        case TimeElapsed():
            return _on_time(state)
        case Stopped():
            return _on_stopped(changed(state, is_stopped=True))
        case Preempted() | LimitReached():
            return _on_bound(state, event)
        case _:
            assert_never(event)


def _is_queued(state: JobState) -> bool:
    return state.phase in (Phase.CREATED, Phase.QUEUED)


def _is_driver(state: JobState) -> bool:
    return state.type is JobType.DRIVER


def _on_start(
    state: JobState, event: Admitted | Rejected | Launched | LaunchFailed | CoordinatorReady
) -> Step:
    match event, state.phase:
        case Admitted(systems=systems), Phase.QUEUED:
            return _enter(state, Phase.SCHEDULED, Launch(), systems=systems)
        case Rejected(message=message), Phase.QUEUED:
            return _finish(changed(state, verdict=Verdict(phase=Phase.FAILED, message=message)))
        case CoordinatorReady(), Phase.SCHEDULED:  # faster than the launcher's own answer
            return changed(state, is_coordinator_ready=True), ()
        case Launched(), Phase.SCHEDULED if state.is_coordinator_ready or _is_driver(state):
            entry = Enter(phase=Phase.RUNNING, through=Phase.INITIALIZING)
            return changed(state, phase=Phase.RUNNING), (entry,)
        case Launched(), Phase.SCHEDULED:
            return _enter(state, Phase.INITIALIZING)
        case LaunchFailed(), Phase.SCHEDULED if state.verdict is not None:  # ended meanwhile
            return (state, ()) if state.is_stopping else _stop(state)
        case LaunchFailed(message=message), Phase.SCHEDULED:
            return _conclude(state, Verdict(phase=Phase.FAILED, message=message), StopPods())
        case CoordinatorReady(), Phase.INITIALIZING if not state.is_stopping:
            return _enter(state, Phase.RUNNING)
        case _:
            return state, () if _is_late(state, event) else (Unexpected(event=event),)


def _is_late(state: JobState, event: Event) -> bool:
    """Whether the start of a job's pods belongs to a run that has ended or was requeued.

    A coordinator may also say twice that it listens, as after a restart of management.
    """
    match event:
        case CoordinatorReady():
            return True
        case Launched() | LaunchFailed():
            return state.is_ending or _is_queued(state)
        case _:
            return False


def _on_report(state: JobState, report: Reported) -> Step:
    match report.phase:
        case Phase.FAILED | Phase.FAILING:
            verdict = Verdict(phase=Phase.FAILED, message=report.message)
        case Phase.CANCELLED:
            verdict = Verdict(phase=Phase.CANCELLED, message=report.message)
        case Phase.SUCCEEDED:
            verdict = Verdict(phase=Phase.SUCCEEDED, message=report.message, is_provisional=True)
        case Phase.RUNNING:  # all pods have registered; the coordinator was the first of them
            return state, ()
        case _:
            return state, (Unexpected(event=report),)
    known = state.verdict
    if known is None:
        return _conclude(state, verdict, Remind(seconds=REPORT_GRACE_SECONDS))
    if known.is_inferred and verdict.phase is Phase.FAILED:
        return changed(state, verdict=verdict), (Explain(message=verdict.message),)
    return state, ()


def _on_pod_exit(state: JobState, end: PodExited) -> Step:
    is_coordinator = end.role in (Role.COORDINATOR, Role.DRIVER)
    if state.is_stopping:
        return state, ()
    if state.verdict is not None:
        return _stop(state) if is_coordinator else (state, ())
    if end.exit_code == 0:
        if not is_coordinator:
            return state, ()  # the coordinator ends its pods one by one before itself
        return _conclude(state, _verdict_of_orderly_end(state), StopPods())
    if end.revival:
        return _conclude(state, Verdict(phase=Phase.QUEUED, message=end.revival), StopPods())
    if end.is_disruption and _is_unseen(state):
        message = f"stopped and queued again: {end.pod} {end.reason}"
        return _conclude(state, Verdict(phase=Phase.QUEUED, message=message), StopPods())
    how = (end.exit_code, end.reason, end.last_words)
    verdict = lost_pod_verdict(state.job, end.pod, end.role, *how)
    if is_coordinator:
        if end.is_disruption:  # nobody else tells the client
            verdict = with_advice(verdict)
        return _conclude(state, verdict, StopPods())
    tell = TellCoordinator(
        reason=verdict.message, is_failure=True, pod=end.pod, is_preemption=end.is_disruption
    )
    return _conclude(state, verdict, tell, Remind(seconds=FAILURE_GRACE_SECONDS))


def _is_unseen(state: JobState) -> bool:
    """Whether a job that was admitted has no coordinator yet that its client could have found."""
    is_starting = state.phase in (Phase.SCHEDULED, Phase.INITIALIZING)
    return is_starting and not state.is_coordinator_ready and not _is_driver(state)


def _verdict_of_orderly_end(state: JobState) -> Verdict:
    if state.type is JobType.COMPILE and not state.is_finalized:
        return Verdict(phase=Phase.CANCELLED, message="the client left before the compile ended")
    return Verdict(phase=Phase.SUCCEEDED, message="", is_provisional=True)


def _on_bound(state: JobState, event: Preempted | LimitReached) -> Step:
    """End a run that may not go on, by the scheduler's word or the job's own limit."""
    if state.verdict is not None:
        return state, ()
    match event:
        case Preempted(message=message):
            verdict = Verdict(phase=Phase.QUEUED, message=message)
        case LimitReached(seconds=seconds):
            message = f"job time limit reached: it has run for {seconds:g} seconds"
            verdict = Verdict(phase=Phase.FAILED, message=message)
        case _:
            assert_never(event)
    if _is_driver(state):
        return _conclude(state, verdict, StopPods())
    tell = TellCoordinator(
        reason=verdict.message, is_failure=True, is_preemption=verdict.phase is Phase.QUEUED
    )
    return _conclude(state, verdict, tell, Remind(seconds=FAILURE_GRACE_SECONDS))


def _verdict_of_request(event: EndRequested | LeaseExpired) -> Verdict:
    if isinstance(event, EndRequested):
        return Verdict(phase=event.phase, message=event.message)
    message = f"client lease expired: no heartbeat from the client for {event.seconds} seconds"
    return Verdict(phase=Phase.CANCELLED, message=message)


def _on_end_request(state: JobState, verdict: Verdict) -> Step:
    known = state.verdict
    if known is None and _is_queued(state):
        return _finish(changed(state, verdict=verdict))
    if known is None and _is_driver(state):
        return _conclude(state, verdict, StopPods())
    if known is None:
        tell = TellCoordinator(reason=verdict.message, is_failure=verdict.phase is Phase.FAILED)
        return _conclude(state, verdict, tell, Remind(seconds=END_GRACE_SECONDS))
    if known.phase is Phase.QUEUED:
        state = changed(state, verdict=with_reason(verdict, known.message))
    elif known.is_provisional:
        state = changed(state, verdict=verdict)
    if state.is_stopped:
        return _finish(state)
    # The client has learnt what it can; nothing is gained by waiting longer.
    return (state, ()) if state.is_stopping else _stop(state)


def _on_time(state: JobState) -> Step:
    if state.verdict is None:
        return state, ()
    if state.is_stopped:
        return _finish(state)
    return (state, ()) if state.is_stopping else _stop(state)


def _on_stopped(state: JobState) -> Step:
    if state.verdict is None:
        lost = Verdict(phase=Phase.FAILED, message="job has failed because its pods were stopped")
        return _finish(changed(state, verdict=lost))
    if state.verdict.is_provisional and state.type is JobType.EXECUTE:
        return state, (Remind(seconds=VERDICT_SECONDS),)
    return _finish(state)


def _enter(
    state: JobState, phase: Phase, *actions: Action, systems: tuple[str, ...] | None = None
) -> Step:
    return changed(state, phase=phase), (Enter(phase=phase, systems=systems), *actions)


def _conclude(state: JobState, verdict: Verdict, *actions: Action) -> Step:
    is_stopping = state.is_stopping or any(isinstance(action, StopPods) for action in actions)
    state = changed(state, verdict=verdict, is_stopping=is_stopping)
    if verdict.phase is not Phase.FAILED:
        return state, actions
    state = changed(state, phase=Phase.FAILING)
    return state, (Enter(phase=Phase.FAILING, message=verdict.message), *actions)


def _stop(state: JobState) -> Step:
    return changed(state, is_stopping=True), (StopPods(),)


def _finish(state: JobState) -> Step:
    assert state.verdict is not None
    phase, message = state.verdict.phase, state.verdict.message
    if state.phase is Phase.FAILING and phase is Phase.SUCCEEDED:
        phase = Phase.FAILED
    if phase is Phase.QUEUED:
        state = JobState(job=state.job, type=state.type, phase=phase)
    return changed(state, phase=phase), (Enter(phase=phase, message=message),)
