"""Requests to the pods of an execute job in its sessions, and their answers."""

import contextlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from google.protobuf.message import Message

from appliance.coordinator.run import pod_requests
from appliance.coordinator.run.background_call import BackgroundCall
from appliance.coordinator.run.gang import Gang, Member, Reply
from appliance.coordinator.run.kernel_selection import KernelSelection, KernelTable
from appliance.coordinator.run.run_session import Session
from appliance.coordinator.run.session_times import completed_steps
from appliance.core.cluster.run import RunSchedule, SimulatedStep
from appliance.core.errors import NotFoundError
from appliance.core.ids import Role
from appliance.core.plans.plan import Plan
from appliance.core.plans.step_count import changes_state, steps_taken
from appliance.wire.requests.run_requests import DataLoaders
from protos.appliance import appliance_service_pb2 as client
from protos.wsc.v1 import pods_pb2, pods_pb2_grpc

_ENGINE = (Role.WEIGHT, Role.BROADCASTREDUCE, Role.CHIEF)


class SessionPods:
    """The pods of a job, as its sessions need them.

    Args:
        gang: The pods.
        is_over: Whether the job has ended; whoever waits for pods then stops.
        kernels: What was measured of kernels; None has them chosen by rule.
    """

    def __init__(
        self, gang: Gang, is_over: Callable[[], bool], kernels: KernelTable | None
    ) -> None:
        self._gang = gang
        self._kernels: KernelSelection | None = None
        if kernels is not None:
            self._kernels = KernelSelection(gang.size.num_systems, self._ask_kernels, kernels)
        self._is_over = is_over
        self._loaders = DataLoaders()
        self._input_load: BackgroundCall | None = None
        self._num_trained = 0

    def load_plan(self, session: int, plan_text: str) -> None:
        """Have MemoryX, SwarmX and the systems load a plan, and choose what these compute by."""
        gang = self._gang
        request = pod_requests.engine_load(session, plan_text, gang.size, fan_out=gang.fan_out)
        self._load([member for member in gang.members if member[0] in _ENGINE], request)
        if self._kernels is not None and not self._is_over():
            self._kernels.apply(session)

    def begin_input(self, session: int, plan: Plan, run: client.RunRequest) -> None:
        """Have the input pods load the user's dataloader, in the background.

        It takes seconds to come up; weights can be sent meanwhile.
        """
        size = self._gang.size
        request = pod_requests.input_load(
            session, plan, size, run, first_batch=self._loaders.first_batch(run)
        )
        self._loaders = self._loaders.after(run)
        inputs: list[Member] = [(Role.ACTIVATION, system) for system in range(size.num_systems)]
        inputs += [(Role.WORKER, worker) for worker in range(size.num_workers)]
        self._input_load = BackgroundCall("load-input", lambda: self._load(inputs, request))

    def wait_for_input(self) -> None:
        """Wait until the input pods are loaded; raises what their loading raised, once."""
        loading, self._input_load = self._input_load, None
        if loading is not None:
            loading.wait()

    def commit(self, session: Session) -> None:
        """Tell MemoryX of the initial values, once all are written."""
        for shard, names in enumerate(session.write_back()):
            commit = pod_requests.commit(session.number, names)
            self._ask_memoryx(shard, "CommitIngest", commit, pods_pb2.CommitIngestReply)

    def count_nonzeros(self, session: Session, names: Iterable[str]) -> Mapping[str, int]:
        """Return how many elements of state tensors are not zero; of masks, as they are now."""
        by_shard: dict[int, list[str]] = {}
        for name in names:
            by_shard.setdefault(session.shard_of(name), []).append(name)
        found: dict[str, int] = {}
        for shard, held in by_shard.items():
            request = pods_pb2.CountNonzerosRequest(session=session.number, resource_names=held)
            reply = self._ask_memoryx(shard, "CountNonzeros", request, pods_pb2.CountNonzerosReply)
            found |= zip(held, reply.counts, strict=True)
        return found

    def start(
        self, session: Session, schedule: RunSchedule, simulated: Mapping[int, SimulatedStep]
    ) -> None:
        """Have the steps begin.

        Args:
            session: The session, whose initial values MemoryX has.
            schedule: Its steps.
            simulated: What systems are told of their steps, by number.
        """
        schedule = replace(schedule, first_step=self._first_step(session))
        request = pod_requests.start(session.number, schedule)
        requests: dict[Member, Message] = dict.fromkeys(self._gang.members, request)
        for system, step in simulated.items():
            requests[Role.CHIEF, system] = pod_requests.start_system(request, step)
        self._gang.call("Start", requests, self._is_over)

    def finish(self, number: int, session: Session | None, *, wait_for_steps: bool) -> None:
        """Have a session end, and count the steps that it has trained."""
        request = pods_pb2.FinishRequest(session=number, wait_for_steps=wait_for_steps)
        self._gang.call("Finish", dict.fromkeys(self._gang.members, request), self._is_over)
        if session is None or session.schedule is None or not session.is_started:
            return
        if changes_state(session.plan):
            done = session.schedule.num_steps if wait_for_steps else self.completed_steps()
            self._num_trained += done

    def completed_steps(self) -> int:
        """Return how many steps the present session has completed, by the pods' reports."""
        return completed_steps(self._gang.reports())

    def data_checkpoint(self, session: int, step: int) -> list[str]:
        """Return the dataloader's state after a step (1-based), one text for each worker."""
        request = pods_pb2.DataCheckpointRequest(session=session, step=step)
        states: list[str] = []
        for worker in range(self._gang.size.num_workers):
            reply = self._gang.ask(
                (Role.WORKER, worker),
                pods_pb2_grpc.InputWorkerStub,
                "DataCheckpoint",
                request,
                pods_pb2.DataCheckpointReply,
            )
            states += reply.serialized_states
        return states

    def locate_snapshot(self, session: Session, step: int, name: str) -> str:
        """Return the segment in which a state tensor lies as it was after a step."""
        request = pods_pb2.LocateSnapshotRequest(
            session=session.number, step=step, resource_name=name
        )
        reply = self._gang.ask(
            (Role.WEIGHT, session.shard_of(name)),
            pods_pb2_grpc.MemoryXStub,
            "LocateSnapshot",
            request,
            pods_pb2.LocateSnapshotReply,
        )
        return reply.segment

    def release_snapshots(self, session: Session, step: int) -> None:
        """Let MemoryX forget the snapshots of a session that a fetch of this step has passed."""
        for number in session.passed_snapshots(step):
            request = pods_pb2.ReleaseSnapshotRequest(session=session.number, step=number)
            for shard in range(self._gang.size.num_shards):
                with contextlib.suppress(NotFoundError):
                    self._ask_memoryx(
                        shard, "ReleaseSnapshot", request, pods_pb2.ReleaseSnapshotReply
                    )

    def release_all_snapshots(self, session: Session) -> None:
        """Let the steps go on to the end; the client will fetch no state any more."""
        if session.is_started and session.schedule is not None:
            self.release_snapshots(session, session.schedule.num_steps)

    def _load(self, members: list[Member], request: pods_pb2.LoadRequest) -> None:
        request.stream_addresses.update(self._gang.stream_addresses())
        self._gang.call("Load", dict.fromkeys(members, request), self._is_over)

    def _first_step(self, session: Session) -> int:
        """Return the training steps before the session's first one, wherever they were run."""
        taken = steps_taken(session.plan, session.scalar)
        return self._num_trained if taken is None else taken

    def _ask_kernels(
        self, system: int, method: str, request: Message, reply_type: type[Reply]
    ) -> Reply:
        member = (Role.CHIEF, system)
        return self._gang.ask(member, pods_pb2_grpc.KernelsStub, method, request, reply_type)

    def _ask_memoryx(
        self, shard: int, method: str, request: Message, reply_type: type[Reply]
    ) -> Reply:
        member = (Role.WEIGHT, shard)
        return self._gang.ask(member, pods_pb2_grpc.MemoryXStub, method, request, reply_type)
