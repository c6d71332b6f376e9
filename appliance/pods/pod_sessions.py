"""Sessions of a pod: one run of one program, from `Load` over `Start` to `Finish`.

A role turns a load request into a `Session`; this module runs the session's loops in threads,
reports the first failure of any of them, and makes sure that closing wakes the rest. A failed
session leaves the pod answering: the coordinator decides what becomes of the job.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Protocol

import grpc

from appliance.core.cluster.run import RunSchedule, SimulatedStep
from appliance.core.errors import ConflictError, StreamAbandonedError
from appliance.pods.role_context import PodContext, failure_of
from protos.wsc.v1 import pods_pb2, pods_pb2_grpc

logger = logging.getLogger(__name__)

Loops = Mapping[str, Callable[[], None]]
"""Bodies of a session's threads, by name; each returns when its part of all steps is done."""


class Session(Protocol):
    """One run of one program in one pod. `Load` has created the streams that the pod serves."""

    def start(self, schedule: RunSchedule) -> Loops:
        """Connect to the other pods' streams and return the loops to run."""
        ...

    def close(self) -> None:
        """Free everything; wakes loops that still wait. Called once, from any thread."""
        ...


class PodRole(Protocol):
    """What distinguishes one kind of pod from another."""

    def load(self, request: pods_pb2.LoadRequest) -> Session:
        """Take a plan and create the streams that this pod serves."""
        ...

    def add_services(self, server: grpc.Server) -> None:
        """Add the role's own services beside `Pod`; may do nothing."""
        ...

    def close(self) -> None:
        """Free what outlives sessions."""
        ...


class SessionRun:
    """The threads of one session.

    Args:
        number: The session's number, from 1.
        session: What the role made of the load request.
    """

    def __init__(self, number: int, session: Session, context: PodContext) -> None:
        self.number = number
        self._session, self._context = session, context
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._is_over = False
        self._is_started = False
        self._closed = threading.Event()

    def start(self, schedule: RunSchedule) -> None:
        """Connect and begin the loops.

        Raises:
            ConflictError: The session was started before.
        """
        if self._is_started:
            raise ConflictError(f"Session {self.number} has been started already.")
        self._is_started = True
        for name, body in self._session.start(schedule).items():
            thread = threading.Thread(target=self._run, args=(name, body), name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def finish(self, *, wait_for_steps: bool) -> None:
        """Let the loops end, or give up on them, and free everything."""
        if wait_for_steps:
            for thread in self._threads:
                thread.join()
        self._close()
        for thread in self._threads:
            thread.join()

    def _run(self, name: str, body: Callable[[], None]) -> None:
        # The outermost frame of a thread: whatever comes out of a loop is the pod's failure.
        try:
            body()
        except Exception as error:  # noqa: BLE001
            self._fail(error, name)

    def _fail(self, error: Exception, loop: str) -> None:
        with self._lock:
            if self._is_over:
                logger.debug("Loop ended", extra={"loop": loop, "reason": str(error)})
                return
            self._is_over = True
        if isinstance(error, StreamAbandonedError):
            # Whoever closed the stream in order has been told to, or has reported the cause.
            logger.warning("Session abandoned", extra={"loop": loop, "reason": str(error)})
            self._close()
            return
        pod = self._context.spec.name
        failure = failure_of(error, pod=pod, where=f"its {loop} loop")
        logger.error("Session failed", extra={"session": self.number}, exc_info=error)
        # The report goes first, so that the cause reaches the coordinator before its consequences:
        # closing the streams makes every peer fail as well.
        self._context.report_failure(failure)
        self._close()

    def _close(self) -> None:
        with self._lock:
            self._is_over = True
            if self._closed.is_set():
                return
            self._closed.set()
        self._session.close()


class SessionServicer(pods_pb2_grpc.PodServicer):
    """Serves `wsc.v1.Pod`: the life of one session after the other.

    Args:
        role: Makes sessions.
    """

    def __init__(self, context: PodContext, role: PodRole) -> None:
        self._context, self._role = context, role
        self._run: SessionRun | None = None
        self._lock = threading.Lock()

    def Load(
        self, request: pods_pb2.LoadRequest, context: grpc.ServicerContext
    ) -> pods_pb2.LoadReply:
        """Take the plan and create the streams that this pod serves."""
        with self._lock:
            if self._run is not None:
                raise ConflictError(
                    f"{self._context.spec.name} cannot load session {request.session} while "
                    f"session {self._run.number} is not finished."
                )
            self._context.progress.begin(request.session)
            self._context.streams.meet(request.stream_addresses)
            session = self._role.load(request)
            self._run = SessionRun(request.session, session, self._context)
        logger.info("Session loaded", extra={"session": request.session})
        return pods_pb2.LoadReply()

    def Start(
        self, request: pods_pb2.StartRequest, context: grpc.ServicerContext
    ) -> pods_pb2.StartReply:
        """Begin the steps."""
        with self._lock:
            self._current(request.session).start(schedule_of(request))
        logger.info(
            "Session started", extra={"session": request.session, "num_steps": request.num_steps}
        )
        return pods_pb2.StartReply()

    def Finish(
        self, request: pods_pb2.FinishRequest, context: grpc.ServicerContext
    ) -> pods_pb2.FinishReply:
        """Wait for the steps to end, or give up on them, and free the session."""
        with self._lock:
            run = self._current(request.session)
        run.finish(wait_for_steps=request.wait_for_steps)
        with self._lock:
            if self._run is run:
                self._run = None
        _, step, readings = self._context.progress.snapshot()
        logger.info("Session finished", extra={"session": request.session, "steps": step})
        return pods_pb2.FinishReply(steps_completed=step, readings=readings)

    def Stop(
        self, request: pods_pb2.StopRequest, context: grpc.ServicerContext
    ) -> pods_pb2.StopReply:
        """End the process in order."""
        self._context.stop(request.reason or "the coordinator asked for it")
        return pods_pb2.StopReply()

    @property
    def has_session(self) -> bool:
        """Whether a session is loaded and not finished."""
        return self._run is not None

    def close(self) -> None:
        """Give up on a session that is not finished."""
        with self._lock:
            run, self._run = self._run, None
        if run is not None:
            run.finish(wait_for_steps=False)

    def _current(self, session: int) -> SessionRun:
        if self._run is None or self._run.number != session:
            present = "none" if self._run is None else f"session {self._run.number}"
            raise ConflictError(
                f"{self._context.spec.name} was asked for session {session} but has {present}."
            )
        return self._run


def schedule_of(request: pods_pb2.StartRequest) -> RunSchedule:
    """Return the schedule that a start request carries."""
    return RunSchedule(
        num_steps=request.num_steps,
        output_interval=request.output_interval,
        checkpoint_steps=frozenset(request.checkpoint_steps),
        first_step=request.first_step,
        simulated=_simulated(request.simulated) if request.HasField("simulated") else None,
    )


def _simulated(step: pods_pb2.SimulatedStep) -> SimulatedStep:
    return SimulatedStep(
        seconds=step.seconds,
        utilization=step.utilization,
        weight_bytes=step.weight_bytes,
        gradient_bytes=step.gradient_bytes,
    )
