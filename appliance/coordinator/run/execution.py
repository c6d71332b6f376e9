"""An execute job: performs what the session machine decides, and lets the servicer wait for it."""

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from typing import assert_never

from appliance.coordinator.failure import Failure
from appliance.coordinator.run import run_machine as machine
from appliance.coordinator.run.execution_context import ExecutionContext
from appliance.coordinator.run.failure_reports import Failures, JobEnd
from appliance.coordinator.run.gang import Gang
from appliance.coordinator.run.persistent_tensors import PersistentTensors
from appliance.coordinator.run.run_session import Session
from appliance.coordinator.run.session_pods import SessionPods
from appliance.coordinator.run.session_times import SessionProgress, session_event
from appliance.coordinator.run.simulated.counted_masks import CountedMasks
from appliance.coordinator.run.simulated.profiles import profile
from appliance.coordinator.weights.checkpoints import Checkpoints
from appliance.core.cluster.run import RunSchedule
from appliance.core.errors import (
    ConflictError,
    NotFoundError,
    WscError,
)
from appliance.core.ids import PodName, Role
from appliance.core.plans.step_count import changes_state
from appliance.streams.endpoint import StreamEndpoint
from appliance.wire import rtfx
from appliance.wire.requests.run_requests import run_schedule
from appliance.wire.tensor_chunks import TensorChunk, output_messages
from protos.appliance import appliance_service_pb2 as client
from protos.wsc.v1 import pods_pb2
from protos.wsc.v1.management_pb2 import RunSessionReport

logger = logging.getLogger(__name__)

_SETTLE_SECONDS = 0.5
"""How long to collect reports before one is blamed; a dead pod's peers are often first."""
_ANNOUNCE_SECONDS = 5.0


class Execution:
    """The sessions of one execute job.

    Args:
        context: What it works with.
        make_gang: Makes the gang, given where to report failures and silences.
    """

    def __init__(
        self,
        context: ExecutionContext,
        make_gang: Callable[
            [Callable[[Failure], None], Callable[[PodName, str, bool], None]], Gang
        ],
    ) -> None:
        self._context = context
        self._state = machine.JobState()
        self._changed = threading.Condition()
        self._session: Session | None = None
        self._plan_text = ""
        self._run_request = client.RunRequest()
        self._profiled_steps = range(0)
        self._num_fetched = 0
        self._progress: SessionProgress | None = None
        self.failures = Failures(
            context,
            JobEnd(
                is_over=self.is_over,
                error=self.over_error,
                wait=self.wait_until_over,
                fail=lambda failure: self._post(machine.Fail(failure=failure)),
            ),
        )
        self.gang = make_gang(self.failures.report, self.failures.note_silence)
        self._pods = SessionPods(self.gang, self.is_over, context.kernels)
        self._masks = CountedMasks(context, self.gang, self._pods)
        self._streams = StreamEndpoint(
            context.spec, clock=context.clock, on_failure=self.failures.report_stream
        )
        self.persistent = PersistentTensors(self.gang)
        self._checkpoints = Checkpoints(context.announce_event)

    # What the job looks like

    @property
    def failure(self) -> Failure | None:
        """Why the job failed; None while it has not."""
        return self._state.failure

    def is_over(self) -> bool:
        """Whether the job has failed or is closed."""
        return self._state.phase in (machine.SessionPhase.FAILED, machine.SessionPhase.CLOSED)

    def over_error(self) -> WscError:
        """Return the error that a call ends with once the job is over."""
        if self._state.failure is not None:
            return self._state.failure.error()
        return ConflictError("The job has been closed.")

    @property
    def session(self) -> Session:
        """The present session.

        Raises:
            WscError: The job has failed.
            ConflictError: No program is loaded.
        """
        if self._state.failure is not None:
            raise self._state.failure.error()
        if self._session is None:
            raise ConflictError("No program is loaded in this job.")
        return self._session

    def wait_until_over(self, timeout_seconds: float) -> bool:
        """Return whether the job is over within the time."""
        with self._changed:
            return self._changed.wait_for(self.is_over, timeout=timeout_seconds)

    def progress(self) -> RunSessionReport | None:
        """Return how far the session is whose steps run; None while none do."""
        progress = self._progress
        if progress is None or self._state.phase is not machine.SessionPhase.STREAMING:
            return None
        self._masks.follow(progress)
        return progress.report(self.gang)

    # What the client asks for

    def load(self, cache_dir: str, *, profiled_steps: range = range(0)) -> None:
        """Begin a session with a compiled program.

        Args:
            cache_dir: Where the program is.
            profiled_steps: Numbers, from 1, of the steps that `profile` is to tell of.
        """
        self._profiled_steps = profiled_steps
        text = self._context.artifacts.plan_text(cache_dir)
        plan = self._context.parse_plan(text)
        self.gang.wait_until_complete(self.is_over)
        self._leave_session("Another program was loaded.")
        self._plan_text = text
        self._post(machine.Load(state=frozenset(tensor.resource_name for tensor in plan.state)))
        self._streams.meet(self.gang.stream_addresses())
        with self.failures.explained():
            self._session = Session(
                self._streams,
                self._state.session,
                plan,
                num_shards=self.gang.size.num_shards,
                locate=lambda step, name: self._pods.locate_snapshot(self.session, step, name),
            )
        self._masks.forget(self.session)

    def run(self, request: client.RunRequest) -> None:
        """Take the number of steps and the dataloader."""
        schedule = run_schedule(request)
        self._run_request = request
        self._post(machine.Run(schedule=schedule))
        self.session.schedule = schedule

    def ingest(self, chunks: Iterator[TensorChunk]) -> Iterator[None]:
        """Take one tensor; yields when the sender may go on, and again when it is complete."""
        for name in self.session.ingress.receive(chunks):
            if name:
                self._post(machine.Ingest(name=name))
            yield

    def ingest_deferred(self, tensor: client.SendDeferredInputRequest.Tensor) -> None:
        """Take a tensor that arrives as a recipe.

        Raises:
            WscError: The recipe is of a kind that is not served, or it fails.
        """
        ingress, name = self.session.ingress, tensor.tensor_name
        wire = ingress.wire_type(name)
        has_hooks = bool(tensor.post_materialize_hooks)
        rtfx.check_announced(name, None if has_hooks else tensor.shape, tensor.dtype, expected=wire)
        kind = tensor.WhichOneof("tensor_impl")
        if kind == "scalar_broadcast_tensor" and not has_hooks:
            ingress.fill(name, tensor.scalar_broadcast_tensor.value)
        elif kind in ("graph_tensor", "scalar_broadcast_tensor"):
            if self._context.initializer is None:
                raise ConflictError(
                    f"Tensor {name!r} needs the user's Python environment to be computed, and the "
                    "job names none."
                )
            values = self._context.initializer.compute(name, tensor, wire)
            ingress.put(name, values, wire.dtype)
        else:
            raise NotFoundError(
                f"Tensor {name!r} is to be read from object storage, which is not served here.",
                hint="Load the checkpoint from a file system.",
            )
        self._post(machine.Ingest(name=name))

    def carry_over(self, name: str, number: int, *, keep: bool) -> None:
        """Give a state tensor the value that an earlier session left under a number."""
        self.persistent.carry_over(self.session, name, number, keep=keep)
        self._post(machine.Ingest(name=name))

    def arrivals(self, names: list[str]) -> Iterator[str]:
        """Yield each of the tensors when it has its value, in the given order."""
        for name in names:
            self.session.ingress.tensor(name)
            with self._changed:
                while name in self._state.missing and not self.is_over():
                    self._changed.wait()
            if self.is_over():
                raise self.over_error()
            yield name

    def start_streaming(self) -> None:
        """Begin the steps."""
        self._post(machine.Stream())

    def fetch(self, step: int, name: str) -> Iterator[bytes]:
        """Yield an output, or a state tensor after a checkpoint step, in encoded messages.

        Args:
            step: The step, 0-based.
            name: Name of the output or of the state tensor.
        """
        session = self.session
        machine.check_step(self._state, step)
        with self.failures.explained():
            self._pods.release_snapshots(session, step)
            self._checkpoints.go_on(session.number, step + 1)
            output = session.output(name)
            if output is not None:
                values, dtype = session.fetch_output(step, name, self.is_over), output.wire_dtype
            else:
                tensor = session.ingress.tensor(name)
                values, dtype = session.fetch_state(step, tensor, self.is_over), tensor.wire_dtype
                self._num_fetched = max(self._num_fetched, step + 1)
                if values is not None:
                    self._checkpoints.note(session.number, step + 1, values.nbytes)
        if values is None:
            raise self.over_error()
        yield from output_messages(values, dtype)

    def how_to_go_on(self) -> str:
        """Return what the user of a job that is stopped can do, as a sentence or two."""
        where = (
            f"The client has fetched the state after step {self._num_fetched} of this run: submit "
            "it again from that checkpoint."
            if self._num_fetched
            else "The client has fetched no checkpoint of this run: submit it again."
        )
        return f"{where} Runs submitted with `csctl submit` are started again by themselves."

    def checkpoint_dataloader(self, step: int) -> list[str]:
        """Return the dataloader's state after a step (1-based), one text for each worker."""
        with self.failures.explained():
            return self._pods.data_checkpoint(self.session.number, step)

    def finish(self, *, is_success: bool) -> None:
        """End the session; tensors stay where they are until the next one is loaded."""
        session = self._session
        wait = is_success and session is not None and not session.was_cut
        self._checkpoints.go_on()
        if session is not None:
            session.output_buffer.stop_keeping()
            with contextlib.suppress(WscError):  # a pod that is gone is reported by others
                self._pods.release_all_snapshots(session)
        self._post(machine.Finish(wait_for_steps=wait))

    def profile(self) -> list[client.FinalizeResponse.EventTrace]:
        """Return the trace of the profiled steps that the finished session has completed."""
        wanted, session = self._profiled_steps, self._session
        if not wanted or session is None or self.failure is not None:
            return []
        end = min(wanted.stop, self._pods.completed_steps() + 1)
        return profile(
            session.plan,
            range(wanted.start, end),
            machine=self._context.machine,
            num_systems=self.gang.size.num_systems,
            densities=self._masks.latest.densities,
        )

    def close(self, reason: str) -> None:
        """End the job."""
        self._post(machine.Close(reason=reason))
        self._leave_session(reason)
        if self._context.initializer is not None:
            self._context.initializer.close()

    def watch_input(self, heartbeat: pods_pb2.HeartbeatRequest) -> None:
        """Look whether the system that a heartbeat is of waits for its batches."""
        role, index = self.gang.member(heartbeat.pod)
        if role is Role.CHIEF:
            self.failures.watch_input(index, heartbeat)

    # What is done about it

    def _post(self, event: machine.Event) -> None:
        with self._changed:
            self._state, actions = machine.advance(self._state, event)
            self._changed.notify_all()
        for action in actions:
            with self.failures.explained():
                self._perform(action)

    def _perform(self, action: machine.Action) -> None:
        match action:
            case machine.LoadPlan(session=session):
                self._pods.load_plan(session, self._plan_text)
            case machine.LoadInput(session=session):
                self._pods.begin_input(session, self.session.plan, self._run_request)
            case machine.StartSteps(schedule=schedule):
                self._pods.wait_for_input()
                self._start_steps(schedule)
            case machine.FinishSteps(session=session, wait_for_steps=wait):
                self._pods.wait_for_input()
                self._pods.finish(session, self._session, wait_for_steps=wait)
                if (progress := self._progress) is not None:
                    self._masks.follow(progress)
                    report = progress.report(self.gang, is_over=True)
                    event = session_event(session, self.gang.reports())
                    self._progress = None
                    self._context.announce_session(report, event)
            case machine.StopPods(reason=reason):
                self.gang.stop(reason)
                self._leave_session(reason)
            case _:
                assert_never(action)

    def _start_steps(self, schedule: RunSchedule) -> None:
        session = self.session
        if self._context.initializer is not None:
            self._context.initializer.close()
        self._context.series.begin(session.number, batch_size=session.plan.batch_size)
        self._pods.commit(session)
        self._masks.count(session)
        self._progress = SessionProgress(
            session.number,
            schedule,
            is_training=changes_state(session.plan),
            clock=self._context.clock,
            masked_weights=self._masks.latest.weights,
        )
        session.read_outputs(self._context.series.record)
        self._pods.start(session, schedule, self._masks.latest.simulated)

    def _leave_session(self, reason: str) -> None:
        self._checkpoints.go_on()
        if self._session is not None:
            self._session.close(reason)
