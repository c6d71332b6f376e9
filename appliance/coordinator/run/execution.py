"""An execute job: carries out what the session machine decides and lends waits to the servicer."""

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from google.protobuf.message import Message

from appliance.coordinator.compile.artifacts import ArtifactStore
from appliance.coordinator.console import Console, Topic
from appliance.coordinator.failure import Blame, Failure, cause
from appliance.coordinator.run import pod_requests
from appliance.coordinator.run import run_machine as machine
from appliance.coordinator.run.background import BackgroundCall
from appliance.coordinator.run.gang import Gang, Member
from appliance.coordinator.run.kept_tensors import PersistentTensors
from appliance.coordinator.run.profiles import profile, wafer_picture_text
from appliance.coordinator.run.run_session import Session
from appliance.coordinator.run.series import SeriesLog
from appliance.coordinator.run.session_times import completed_steps, session_event
from appliance.coordinator.starvation import HINT, StarvationWatch
from appliance.coordinator.weights.initializer import Initializer
from appliance.core.clock import Clock
from appliance.core.cluster.drivers import POD_LOST_EVENT
from appliance.core.cluster.pods import PodSpec
from appliance.core.errors import (
    ConflictError,
    NotFoundError,
    PodFailedError,
    StreamClosedError,
    WscError,
)
from appliance.core.ids import PodName, Role, pod_name
from appliance.core.plans.plan import Plan
from appliance.core.plans.step_count import changes_state, steps_taken
from appliance.streams.endpoint import StreamEndpoint
from appliance.wafer.machine import Machine
from appliance.wire import rtfx
from appliance.wire.profiles import forget_wafer_picture, keep_profile, keep_wafer_picture
from appliance.wire.run_requests import DataLoaders, run_schedule
from appliance.wire.tensor_chunks import TensorChunk, output_messages
from protos.appliance import appliance_service_pb2 as client
from protos.wsc.v1 import pods_pb2, pods_pb2_grpc
from protos.wsc.v1.management_pb2 import JobEventReport

logger = logging.getLogger(__name__)

_SETTLE_SECONDS = 0.5
"""How long to collect reports before one is blamed; a dead pod's neighbours are often first."""
_ANNOUNCE_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What an execute job works with.

    Attributes:
        spec: The coordinator pod.
        clock: Source of time.
        artifacts: Compiled programs.
        parse_plan: Reads a plan's text.
        initializer: Computes deferred initial values; None if the user reports no environment.
        announce_failure: Tells management why the job failed, and what to add to the job's list;
            returns when it knows.
        machine: What each system is, for simulated times.
        announce_event: Tells management of something for the job's list; returns when it knows.
        console: Takes lines for the user.
        stall_seconds: Longest wait of a system for one batch.
        series: Takes what training shows.
    """

    spec: PodSpec
    clock: Clock
    artifacts: ArtifactStore
    parse_plan: Callable[[str], Plan]
    initializer: Initializer | None
    announce_failure: Callable[[str, Sequence[JobEventReport]], None]
    machine: Machine
    announce_event: Callable[[JobEventReport], None]
    console: Console
    stall_seconds: float
    series: SeriesLog


class Execution:
    """The sessions of one execute job.

    Args:
        around: What it works with.
        make_gang: Makes the gang, given where to report failures and silences.
    """

    def __init__(
        self,
        around: Surroundings,
        make_gang: Callable[
            [Callable[[Failure], None], Callable[[PodName, str, bool], None]], Gang
        ],
    ) -> None:
        self._around = around
        self._state = machine.JobState()
        self._changed = threading.Condition()
        self._suspects: list[Failure] = []
        self._session: Session | None = None
        self._plan_text = ""
        self._run_request = client.RunRequest()
        self._loaders = DataLoaders()
        self._profiled_steps = range(0)
        self._input_load: BackgroundCall | None = None
        self._num_trained = 0
        self._num_fetched = 0
        self.gang = make_gang(self.suspect, self.note_silence)
        self._streams = StreamEndpoint(
            around.spec, clock=around.clock, on_failure=self._suspect_stream
        )
        self.persistent = PersistentTensors(self.gang)
        self._starvation = StarvationWatch(stall_seconds=around.stall_seconds)

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

    # What the client asks for

    def load(self, cache_dir: str, *, profiled_steps: range = range(0)) -> None:
        """Begin a session with a compiled program.

        Args:
            cache_dir: Where the program is.
            profiled_steps: Numbers, from 1, of the steps that `profile` is to tell of.
        """
        self._profiled_steps = profiled_steps
        text = self._around.artifacts.plan_text(cache_dir)
        plan = self._around.parse_plan(text)
        self.gang.wait_until_complete(self.is_over)
        self._leave_session("Another program was loaded.")
        self._plan_text = text
        self._post(machine.Load(state=frozenset(tensor.resource_name for tensor in plan.state)))
        self._streams.meet(self.gang.stream_addresses())
        with self._pods_answering():
            self._session = Session(
                self._streams,
                self._state.session,
                plan,
                num_shards=self.gang.size.num_shards,
                locate=self._locate_snapshot,
            )
        self._keep_pictures()

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
            if self._around.initializer is None:
                raise ConflictError(
                    f"Tensor {name!r} needs the user's Python environment to be computed, and the "
                    "job names none."
                )
            values = self._around.initializer.compute(name, tensor, wire)
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
        session = self._running_session(step)
        with self._pods_answering():
            self._release_snapshots(session, step)
            output = session.output(name)
            if output is not None:
                values, dtype = session.fetch_output(step, name, self.is_over), output.wire_dtype
            else:
                tensor = session.ingress.tensor(name)
                values, dtype = session.fetch_state(step, tensor, self.is_over), tensor.wire_dtype
                self._num_fetched = max(self._num_fetched, step + 1)
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
        request = pods_pb2.DataCheckpointRequest(session=self.session.number, step=step)
        states: list[str] = []
        for worker in range(self.gang.size.num_workers):
            with self._pods_answering():
                reply = self.gang.ask(
                    (Role.WORKER, worker),
                    pods_pb2_grpc.InputWorkerStub,
                    "DataCheckpoint",
                    request,
                    pods_pb2.DataCheckpointReply,
                )
            states += reply.serialized_states
        return states

    def finish(self, *, is_success: bool) -> None:
        """End the session; tensors stay where they are until the next one is loaded."""
        session = self._session
        wait = is_success and session is not None and not session.was_cut
        if session is not None:
            session.shelf.stop_keeping()
            with contextlib.suppress(WscError):  # a pod that is gone is reported by others
                self._release_all_snapshots(session)
        self._post(machine.Finish(wait_for_steps=wait))

    def profile(self) -> list[client.FinalizeResponse.EventTrace]:
        """Return the trace of the profiled steps that the finished session has completed."""
        wanted, session = self._profiled_steps, self._session
        if not wanted or session is None or self.failure is not None:
            return []
        end = min(wanted.stop, completed_steps(self.gang.reports()) + 1)
        return self._profile_of(range(wanted.start, end))

    def _profile_of(self, steps: range) -> list[client.FinalizeResponse.EventTrace]:
        return profile(
            self.session.plan,
            steps,
            machine=self._around.machine,
            num_systems=self.gang.size.num_systems,
        )

    def _keep_pictures(self) -> None:
        """Leave in the job's work directory what pages and csctl show of the simulated wafer."""
        work_dir = self._around.spec.work_dir
        plan = self.session.plan
        keep_profile(work_dir, self._profile_of(range(1, 2)))
        if not plan.layer_steps:  # nothing of it runs on the wafer
            forget_wafer_picture(work_dir)
            return
        text = wafer_picture_text(
            plan,
            machine=self._around.machine,
            num_systems=self.gang.size.num_systems,
        )
        keep_wafer_picture(work_dir, text)

    def close(self, reason: str) -> None:
        """End the job."""
        self._post(machine.Close(reason=reason))
        self._leave_session(reason)
        if self._around.initializer is not None:
            self._around.initializer.close()

    # What goes wrong

    def watch_input(self, heartbeat: pods_pb2.HeartbeatRequest) -> None:
        """Look whether a system waits for its batches; warn, or fail the job if it does not end."""
        role, index = self.gang.member(heartbeat.pod)
        if role is not Role.CHIEF or self.is_over():
            return
        with self._changed:
            found = self._starvation.look(
                index,
                session=heartbeat.session,
                step=heartbeat.step,
                readings=heartbeat.readings,
                now_seconds=self._around.clock.monotonic_seconds(),
            )
        if found is None:
            return
        if found.is_stall:
            failure = Failure(
                blame=Blame.USER, message=found.message, role=role, index=index, is_stall=True
            )
            self.suspect(failure)
            return
        logger.warning("Input starvation", extra={"reason": found.message})
        self._around.console.write(Topic.STALL, found.message, hint=HINT, is_warning=True)
        self._around.announce_event(
            JobEventReport(
                reason="InputStarvation",
                message=f"{found.message} {HINT}.",
                is_warning=True,
                pod=heartbeat.pod,
            )
        )

    def note_silence(self, pod: PodName, sentence: str, is_silent: bool) -> None:
        """Tell people of a pod that does not answer while its job waits, or that answers again."""
        if self.is_over():
            return
        logger.warning("Silent pod", extra={"pod": pod, "reason": sentence})
        self._around.console.write(Topic.STALL, sentence, is_warning=is_silent)
        event = JobEventReport(
            reason="PodSilent" if is_silent else "PodAnswers",
            message=sentence,
            is_warning=is_silent,
            pod=pod,
        )
        # Management may be away, and whoever looks at the pods must not wait for it.
        threading.Thread(
            target=self._around.announce_event, args=(event,), name="silence", daemon=True
        ).start()

    def suspect(self, failure: Failure) -> None:
        """Take a report that something broke; the job fails for one of those that come in."""
        with self._changed:
            self._suspects.append(failure)
            if len(self._suspects) == 1 and not self.is_over():
                threading.Thread(target=self._settle, name="settle", daemon=True).start()
            self._changed.notify_all()

    def _suspect_stream(self, error: Exception) -> None:
        self.suspect(Failure(blame=Blame.REPORTED, message=str(error)))

    def _settle(self) -> None:
        with self._changed:
            self._changed.wait_for(
                lambda: any(report.blame <= Blame.ENDED for report in self._suspects),
                timeout=_SETTLE_SECONDS,
            )
            failure = cause(self._suspects)
        if self.is_over():
            return
        logger.error("Job fails", extra={"reason": failure.message})
        # Management first: the client asks it for the reason as soon as it hears of the failure.
        self._around.announce_failure(failure.text, self._losses(failure))
        self._post(machine.Fail(failure=failure))

    def _losses(self, failure: Failure) -> list[JobEventReport]:
        """Return the event of a lost pod; its launcher may not say in time that it has ended."""
        if failure.blame is not Blame.LOST:
            return []
        pod = pod_name(self._around.spec.job, failure.role, failure.index)
        return [
            JobEventReport(reason=POD_LOST_EVENT, message=failure.message, is_warning=True, pod=pod)
        ]

    @contextlib.contextmanager
    def _pods_answering(self) -> Iterator[None]:
        """Turn the loss of a pod, which may be a consequence, into the reason why the job fails."""
        try:
            yield
        except (PodFailedError, StreamClosedError) as error:
            if not self.is_over():
                self.suspect(Failure(blame=Blame.REPORTED, message=str(error)))
                self.wait_until_over(_SETTLE_SECONDS + _ANNOUNCE_SECONDS)
            raise (self.over_error() if self.is_over() else error) from error

    # What is done about it

    def _post(self, event: machine.Event) -> None:
        with self._changed:
            self._state, actions = machine.advance(self._state, event)
            self._changed.notify_all()
        for action in actions:
            with self._pods_answering():
                self._perform(action)

    def _perform(self, action: machine.Action) -> None:
        match action:
            case machine.LoadPlan(session=session):
                self._load_plan(session)
            case machine.LoadInput(session=session):
                self._load_input(session)
            case machine.StartSteps():
                self._wait_for_input()
                self._start_steps(action)
            case machine.FinishSteps(session=session, wait_for_steps=wait):
                self._wait_for_input()
                request = pods_pb2.FinishRequest(session=session, wait_for_steps=wait)
                self._call_all("Finish", request)
                self._count_trained(wait_for_steps=wait)
                event = session_event(session, self.gang.reports())
                if event is not None:
                    self._around.announce_event(event)
            case machine.StopPods(reason=reason):
                self.gang.stop(reason)
                self._leave_session(reason)
            case _:
                assert_never(action)

    def _count_trained(self, *, wait_for_steps: bool) -> None:
        session = self._session
        if session is None or session.schedule is None or not session.is_started:
            return
        if not changes_state(session.plan):
            return
        completed = completed_steps(self.gang.reports())
        self._num_trained += session.schedule.num_steps if wait_for_steps else completed

    def _wait_for_input(self) -> None:
        """Wait until the input pods are loaded; raises what their loading raised, once."""
        loading, self._input_load = self._input_load, None
        if loading is not None:
            loading.wait()

    def _load_plan(self, session: int) -> None:
        size = self.gang.size
        request = pod_requests.engine_load(
            session, self._plan_text, size, fan_out=self.gang.fan_out
        )
        roles = (Role.WEIGHT, Role.BROADCASTREDUCE, Role.CHIEF)
        engine = [member for member in self.gang.members if member[0] in roles]
        self._call_load(engine, request)

    def _load_input(self, session: int) -> None:
        run, size = self._run_request, self.gang.size
        first_batch = self._loaders.first_batch(run)
        request = pod_requests.input_load(
            session, self.session.plan, size, run, first_batch=first_batch
        )
        self._loaders = self._loaders.after(run)
        inputs: list[Member] = [(Role.ACTIVATION, system) for system in range(size.num_systems)]
        inputs += [(Role.WORKER, worker) for worker in range(size.num_workers)]
        # The user's dataloader takes seconds to come up; weights can be sent meanwhile.
        self._input_load = BackgroundCall("load-input", lambda: self._call_load(inputs, request))

    def _call_load(self, members: list[Member], request: pods_pb2.LoadRequest) -> None:
        request.stream_addresses.update(self.gang.stream_addresses())
        self.gang.call("Load", dict.fromkeys(members, request), self.is_over)

    def _start_steps(self, action: machine.StartSteps) -> None:
        session = self.session
        if self._around.initializer is not None:
            self._around.initializer.close()
        for shard, names in enumerate(session.write_back()):
            commit = pod_requests.commit(session.number, names)
            self._ask_memoryx(shard, "CommitIngest", commit, pods_pb2.CommitIngestReply)
        self._around.series.begin(session.number, batch_size=session.plan.batch_size)
        session.read_outputs(self._around.series.record)
        schedule = replace(action.schedule, first_step=self._first_step(session))
        self._call_all("Start", pod_requests.start(session.number, schedule))

    def _first_step(self, session: Session) -> int:
        """Return the training steps before the session's first one, wherever they were run."""
        taken = steps_taken(session.plan, session.scalar)
        return self._num_trained if taken is None else taken

    def _call_all(
        self, method: str, request: pods_pb2.StartRequest | pods_pb2.FinishRequest
    ) -> None:
        everyone = dict.fromkeys(self.gang.members, request)
        self.gang.call(method, everyone, self.is_over)

    def _ask_memoryx(
        self, shard: int, method: str, request: Message, reply_type: type[Message]
    ) -> None:
        self.gang.ask((Role.WEIGHT, shard), pods_pb2_grpc.MemoryXStub, method, request, reply_type)

    def _running_session(self, step: int) -> Session:
        """Return the session if a step belongs to its run."""
        session, schedule = self.session, self._state.schedule
        if self._state.phase is not machine.SessionPhase.STREAMING or schedule is None:
            raise ConflictError(
                f"Nothing of step {step + 1} can be fetched: session {session.number} is "
                f"{self._state.phase.value}."
            )
        if step >= schedule.num_steps:
            raise NotFoundError(f"The run has {schedule.num_steps} steps; step {step + 1} is none.")
        return session

    def _release_all_snapshots(self, session: Session) -> None:
        """Let the steps go on to the end; the client will fetch no state any more."""
        if session.is_started and session.schedule is not None:
            self._release_snapshots(session, session.schedule.num_steps)

    def _release_snapshots(self, session: Session, step: int) -> None:
        for number in session.passed_snapshots(step):
            request = pods_pb2.ReleaseSnapshotRequest(session=session.number, step=number)
            for shard in range(self.gang.size.num_shards):
                with contextlib.suppress(NotFoundError):
                    self._ask_memoryx(
                        shard, "ReleaseSnapshot", request, pods_pb2.ReleaseSnapshotReply
                    )

    def _locate_snapshot(self, number: int, name: str) -> str:
        request = pods_pb2.LocateSnapshotRequest(
            session=self.session.number, step=number, resource_name=name
        )
        reply = self.gang.ask(
            (Role.WEIGHT, self.session.shard_of(name)),
            pods_pb2_grpc.MemoryXStub,
            "LocateSnapshot",
            request,
            pods_pb2.LocateSnapshotReply,
        )
        return reply.segment

    def _leave_session(self, reason: str) -> None:
        if self._session is not None:
            self._session.close(reason)
