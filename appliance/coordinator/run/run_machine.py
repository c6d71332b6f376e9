"""The life of a job's sessions as a pure machine: (state, event) -> (state, actions).

A session is one run of one program: it is loaded, takes its weights, streams, and finishes; an
execute job has several, one after the other. `execution` performs the actions.

    IDLE --Load--> LOADED --Run--> INGESTING --Stream--> STREAMING --Finish--> FINISHED
    FINISHED --Load--> LOADED      any --Fail--> FAILED      any --Close--> CLOSED
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import assert_never

from appliance.coordinator.failure import Failure
from appliance.core.cluster.run import RunSchedule
from appliance.core.errors import ConflictError, NotFoundError


class SessionPhase(StrEnum):
    """Where the present session stands."""

    IDLE = "idle"
    LOADED = "loaded"
    INGESTING = "ingesting"
    STREAMING = "streaming"
    FINISHED = "finished"
    FAILED = "failed"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """What the machine knows.

    Attributes:
        phase: Where the session stands.
        session: Its number, from 1; 0 before the first.
        missing: State tensors without a value.
        schedule: The session's steps, once `Run` has come.
        failure: Why the job failed.
        story: The events so far, as words.
    """

    phase: SessionPhase = SessionPhase.IDLE
    session: int = 0
    missing: frozenset[str] = frozenset()
    schedule: RunSchedule | None = None
    failure: Failure | None = None
    story: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The client loads a program.

    Attributes:
        state: Names of its state tensors.
    """

    state: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The client says how long to run and with which dataloader."""

    schedule: RunSchedule


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingest:
    """A state tensor has its value."""

    name: str


@dataclass(frozen=True, slots=True)
class Stream:
    """The client wants the steps to begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """The client is through with the session.

    Attributes:
        wait_for_steps: Whether steps that still run are to be completed.
    """

    wait_for_steps: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Fail:
    """The job cannot go on."""

    failure: Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Close:
    """The job is over: the client is done, or management says so."""

    reason: str


Event = Load | Run | Ingest | Stream | Finish | Fail | Close


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """Give the plan to the pods that need it."""

    session: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadInput:
    """Give the dataloader to the input pods."""

    session: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StartSteps:
    """Let all pods begin."""

    session: int
    schedule: RunSchedule


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishSteps:
    """Let all pods end the session."""

    session: int
    wait_for_steps: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StopPods:
    """End all pods."""

    reason: str


Action = LoadPlan | LoadInput | StartSteps | FinishSteps | StopPods

_NUM_NAMED = 3
_MAX_STORY = 40


def advance(state: JobState, event: Event) -> tuple[JobState, tuple[Action, ...]]:
    """Return what follows from an event.

    Raises:
        WscError: The job has failed; the error says why.
        ConflictError: The event cannot happen now; the message tells the job's story.
    """
    if isinstance(event, Fail | Close):
        return _end(state, event)
    if state.failure is not None:
        if isinstance(event, Finish):
            return state, ()
        raise state.failure.error()
    new, actions = _next(state, event)
    return (new if isinstance(event, Ingest) else _told(new, _word(event))), actions


def check_step(state: JobState, step: int) -> None:
    """Check that a step (0-based) belongs to the run of the present session.

    Raises:
        ConflictError: No steps run.
        NotFoundError: The run has fewer steps.
    """
    schedule = state.schedule
    if state.phase is not SessionPhase.STREAMING or schedule is None:
        raise ConflictError(
            f"Nothing of step {step + 1} can be fetched: session {state.session} is "
            f"{state.phase.value}."
        )
    if step >= schedule.num_steps:
        raise NotFoundError(f"The run has {schedule.num_steps} steps; step {step + 1} is none.")


def _end(state: JobState, event: Fail | Close) -> tuple[JobState, tuple[Action, ...]]:
    if state.phase in (SessionPhase.FAILED, SessionPhase.CLOSED):
        return state, ()
    match event:
        case Fail(failure=failure):
            new = replace(state, phase=SessionPhase.FAILED, failure=failure)
            return _told(new, "fail"), (StopPods(reason=failure.message),)
        case Close(reason=reason):
            new = replace(state, phase=SessionPhase.CLOSED)
            return _told(new, "close"), (StopPods(reason=reason),)
        case _:
            assert_never(event)


def _next(
    state: JobState, event: Load | Run | Ingest | Stream | Finish
) -> tuple[JobState, tuple[Action, ...]]:
    match (state.phase, event):
        case (SessionPhase.IDLE | SessionPhase.FINISHED, Load(state=names)):
            session = state.session + 1
            new = replace(
                state, phase=SessionPhase.LOADED, session=session, missing=names, schedule=None
            )
            return new, (LoadPlan(session=session),)
        case (SessionPhase.LOADED, Run(schedule=schedule)):
            new = replace(state, phase=SessionPhase.INGESTING, schedule=schedule)
            return new, (LoadInput(session=state.session),)
        case (SessionPhase.LOADED | SessionPhase.INGESTING, Ingest(name=name)):
            return replace(state, missing=state.missing - {name}), ()
        case (SessionPhase.INGESTING, Stream()):
            return _stream(state)
        case (SessionPhase.IDLE | SessionPhase.FINISHED, Finish()):
            return state, ()
        case (_, Finish(wait_for_steps=wait)) if state.phase is not SessionPhase.CLOSED:
            is_streaming = state.phase is SessionPhase.STREAMING
            new = replace(state, phase=SessionPhase.FINISHED)
            action = FinishSteps(session=state.session, wait_for_steps=wait and is_streaming)
            return new, (action,)
        case _:
            raise _impossible(state, event)


def _stream(state: JobState) -> tuple[JobState, tuple[Action, ...]]:
    if state.missing:
        some = ", ".join(sorted(state.missing)[:_NUM_NAMED])
        raise ConflictError(
            f"Session {state.session} cannot start: {len(state.missing):,} state tensors have no "
            f"value, among them {some}.",
            hint="Send every tensor that the program lists before the run starts.",
        )
    if state.schedule is None:
        raise _impossible(state, Stream())
    new = replace(state, phase=SessionPhase.STREAMING)
    return new, (StartSteps(session=state.session, schedule=state.schedule),)


def _impossible(state: JobState, event: Event) -> ConflictError:
    story = ", ".join(state.story) or "nothing yet"
    return ConflictError(
        f"A job cannot {_word(event)} while session {state.session} is {state.phase.value}. "
        f"So far: {story}."
    )


def _word(event: Event) -> str:
    return type(event).__name__.lower()


def _told(state: JobState, word: str) -> JobState:
    entry = f"{word} ({state.session})"
    return replace(state, story=(*state.story, entry)[-_MAX_STORY:])
