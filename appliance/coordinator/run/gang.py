"""The job's other pods: which have registered, which are alive, and calls to all of them."""

import logging
import os
import select
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import grpc
from google.protobuf.message import Message

from appliance.coordinator.failure import Blame, Failure
from appliance.core.clock import Clock
from appliance.core.cluster.liveness import (
    NOTICE_SECONDS,
    Activity,
    ListenedTime,
    describe,
    patience_seconds,
)
from appliance.core.cluster.swarmx_tree import swarmx_tree
from appliance.core.errors import (
    NotFoundError,
    PodFailedError,
    UserError,
    WscError,
)
from appliance.core.ids import PodName, Role, pod_name
from appliance.core.pods.pod_spec import PodSpec, member_name
from appliance.observability.traced_calls import traced_channel
from appliance.pods.peers import Peers
from appliance.pods.process_state import SilentProcess, named_processes
from appliance.wire.error_status import error_of
from appliance.wire.requests.cluster_details import GangSize
from protos.wsc.v1 import management_pb2, pods_pb2, pods_pb2_grpc

logger = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 1.0
_STOP_SECONDS = 7.0
_REGISTER_SECONDS = 120.0
_POLL_SECONDS = 0.2
_SWEEP_SECONDS = 1.0
"""A sweep over the pods that takes longer than this: the coordinator itself was frozen."""
_SCAN_SECONDS = 2.0
"""Between two looks for the processes of pods that have not registered."""
_CHANNEL_OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
]

Member = tuple[Role, int]
Stub = TypeVar("Stub")
Reply = TypeVar("Reply", bound=Message)


@dataclass(slots=True, kw_only=True)
class _Pod:
    """The state of one pod."""

    name: PodName
    channel: grpc.Channel | None = None
    pid: int = 0
    pid_descriptor: int = -1
    stream_address: str = ""
    process: SilentProcess = field(default_factory=lambda: SilentProcess(pid=0))
    heard_seconds: float = 0.0
    is_silent: bool = False
    session: int = 0
    step: int = 0
    resident_bytes: int = 0
    readings: dict[str, float] = field(default_factory=dict)


def members(size: GangSize, *, fan_out: int) -> tuple[Member, ...]:
    """Return every pod of an execute job except the coordinator.

    Args:
        size: The job's size.
        fan_out: Children of a SwarmX pod at most.
    """
    systems = range(size.num_systems)
    return (
        *((Role.WEIGHT, shard) for shard in range(size.num_shards)),
        *(
            (Role.BROADCASTREDUCE, pod.index)
            for pod in swarmx_tree(size.num_systems, fan_out=fan_out)
        ),
        *((Role.CHIEF, system) for system in systems),
        *((Role.ACTIVATION, system) for system in systems),
        *((Role.WORKER, worker) for worker in range(size.num_workers)),
    )


class Gang:
    """The pods of one execute job.

    Args:
        spec: The coordinator, and which pod runs on which node.
        size: The job's size.
        peers: The ways to pods on other nodes.
        fan_out: Children of a SwarmX pod at most.
        stall_seconds: How long the job may not move.
        on_failure: Called, from any thread, when a pod is lost or says that it cannot go on.
        on_silence: Called with a pod's name and a sentence when it does not answer but is not given
            up, and again once it answers; from a thread that must not wait.
    """

    def __init__(
        self,
        spec: PodSpec,
        size: GangSize,
        peers: Peers,
        *,
        clock: Clock,
        fan_out: int,
        stall_seconds: float,
        on_failure: Callable[[Failure], None],
        on_silence: Callable[[PodName, str, bool], None],
    ) -> None:
        self.size, self.fan_out = size, fan_out
        self._spec, self._peers = spec, peers
        self.members = members(size, fan_out=fan_out)
        self._on_failure, self._on_silence = on_failure, on_silence
        self._stall_seconds = stall_seconds
        self._pods = {key: _Pod(name=pod_name(spec.job, *key)) for key in self.members}
        self._keys = {pod.name: key for key, pod in self._pods.items()}
        self._changed = threading.Condition()
        self._is_closed = False
        self._stop_calls: list[object] = []
        self._listened = ListenedTime(clock, most_seconds=_SWEEP_SECONDS)
        self._unregistered: Mapping[str, int] = {}
        self._next_scan = 0.0
        self._thread = threading.Thread(target=self._watch, name="gang", daemon=True)
        self._thread.start()

    def register(self, request: pods_pb2.RegisterRequest) -> None:
        """Note that a pod serves.

        Raises:
            NotFoundError: The job has no such pod.
        """
        key = self.member(request.pod)
        pod, member = self._pods[key], member_name(*key)
        if pod.channel is not None and pod.pid == request.pid:
            return  # its call was repeated
        is_far, target = self._spec.is_elsewhere(member), request.control_address
        if is_far:
            target = self._peers.member(member, request.stream_address)
        with self._changed:
            pod.pid = request.pid
            pod.heard_seconds = self._listened.seconds
            pod.channel = traced_channel(grpc.insecure_channel(target, options=_CHANNEL_OPTIONS))
            pod.pid_descriptor = -1 if is_far else _open_pid(request.pid)
            pod.process = SilentProcess(pid=0 if is_far else request.pid)
            pod.stream_address = request.stream_address
            self._changed.notify_all()
        logger.info("Pod registered", extra={"pod": pod.name, "pid": pod.pid})

    def heartbeat(self, request: pods_pb2.HeartbeatRequest) -> None:
        """Note that a pod lives and how far it is; raises as `register` does."""
        pod = self._pods[self.member(request.pod)]
        with self._changed:
            pod.heard_seconds = self._listened.seconds
            pod.session, pod.step = request.session, request.step
            pod.resident_bytes = request.resident_bytes
            pod.readings = dict(request.readings)

    def report_failure(self, report: pods_pb2.FailureReport) -> None:
        """Pass on that a pod cannot go on; raises as `register` does."""
        role, index = self.member(report.pod)
        logger.error("Pod failed", extra={"pod": report.pod, "reason": report.message})
        blame = Blame.USER if report.is_user_error else Blame.REPORTED
        self._on_failure(
            Failure(
                blame=blame, message=report.message, detail=report.detail, role=role, index=index
            )
        )

    def failure_of(self, name: str, reason: str) -> Failure:
        """Return the failure of a pod that management reports; its name may be unknown."""
        role, index = self._keys.get(PodName(name), (Role.COORDINATOR, 0))
        return Failure(blame=Blame.ENDED, message=reason, role=role, index=index)

    @property
    def is_complete(self) -> bool:
        """Whether every pod has registered."""
        return all(pod.channel is not None for pod in self._pods.values())

    def wait_until_complete(self, is_over: Callable[[], bool]) -> None:
        """Wait until every pod has registered, or the job is over."""
        with self._changed:
            while not self.is_complete and not is_over():
                self._changed.wait(_POLL_SECONDS)

    def stream_addresses(self) -> dict[str, str]:
        """Return where pods on other nodes reach each pod's streams, by member name."""
        return {
            member_name(role, index): pod.stream_address
            for (role, index), pod in self._pods.items()
            if pod.stream_address
        }

    def stub(self, member: Member, factory: Callable[[grpc.Channel], Stub]) -> Stub:
        """Return a stub of a pod's service.

        Raises:
            PodFailedError: The pod has not registered.
        """
        pod = self._pods[member]
        if pod.channel is None:
            raise PodFailedError(f"{pod.name} has not registered with its coordinator.")
        return factory(pod.channel)

    def ask(
        self,
        member: Member,
        factory: Callable[[grpc.Channel], Stub],
        method: str,
        request: Message,
        reply_type: type[Reply],
    ) -> Reply:
        """Call one method of one pod and return its reply.

        Raises:
            WscError: What the pod raised.
            PodFailedError: The pod is gone.
        """
        try:
            reply = getattr(self.stub(member, factory), method)(request)
        except grpc.RpcError as error:
            raise self._error_of(member, error) from error
        assert isinstance(reply, reply_type)
        return reply

    def _error_of(self, member: Member, error: grpc.RpcError) -> WscError:
        """Return what a pod raised, as its shell has put it into a status."""
        details = error.details() or ""
        raised = error_of(error.code(), details)
        name = self._pods[member].name
        return raised or PodFailedError(f"{name} does not answer: {details}")

    def call(
        self, method: str, requests: Mapping[Member, Message], is_over: Callable[[], bool]
    ) -> None:
        """Call `wsc.v1.Pod` of several pods at once and wait for all of them.

        Args:
            method: A method of the service.
            requests: What to send to whom.
            is_over: Whether the job has ended meanwhile, so that waiting is in vain.

        Raises:
            PodFailedError: A pod refused or is gone; the message names it.
        """
        answered = threading.Semaphore(0)
        futures: dict[Member, Any] = {}  # grpc's future class is private
        for member, request in requests.items():
            stub = self.stub(member, pods_pb2_grpc.PodStub)
            futures[member] = getattr(stub, method).future(request)
            futures[member].add_done_callback(lambda _: answered.release())
        for _ in futures:
            while not answered.acquire(timeout=_POLL_SECONDS):
                if is_over():
                    for future in futures.values():
                        future.cancel()
                    return
        for member, future in futures.items():
            self._check(member, method, future)
            reply = future.result()
            if isinstance(reply, pods_pb2.FinishReply):
                self._note_end(member, requests[member], reply)

    def completed_steps(self, session: int) -> int:
        """Return how many steps of a session every system is known to have completed."""
        with self._changed:
            return min(
                pod.step if pod.session == session else 0
                for (role, _), pod in self._pods.items()
                if role is Role.CHIEF
            )

    def reports(self, session: int | None = None) -> list[management_pb2.PodReport]:
        """Return the report on each pod for management; with a session on those at work on it."""
        with self._changed:
            return [
                management_pb2.PodReport(
                    pod=pod.name,
                    role=role.value,
                    index=index,
                    pid=pod.pid,
                    is_ready=pod.channel is not None,
                    step=pod.step,
                    resident_bytes=pod.resident_bytes,
                    readings=pod.readings,
                )
                for (role, index), pod in self._pods.items()
                if session in (None, pod.session)
            ]

    def stop(self, reason: str) -> None:
        """Ask every pod to end; waits for no answer, since it may be dead."""
        with self._changed:
            self._is_closed = True
            channels = [pod.channel for pod in self._pods.values() if pod.channel is not None]
        request = pods_pb2.StopRequest(reason=reason)
        # A call whose future is dropped is cancelled, so the futures are kept.
        self._stop_calls = [
            pods_pb2_grpc.PodStub(channel).Stop.future(request, timeout=_STOP_SECONDS)
            for channel in channels
        ]

    def member(self, name: str) -> Member:
        """Return role and index of a pod.

        Raises:
            NotFoundError: The job has no such pod.
        """
        if name not in self._keys:
            raise NotFoundError(f"The job has no pod {name!r}.")
        return self._keys[PodName(name)]

    def _check(self, member: Member, method: str, future: Any) -> None:  # noqa: ANN401 - as above
        status = future.exception()
        if status is None:
            return
        error = self._error_of(member, status)
        is_users = isinstance(error, UserError)
        failure = Failure(
            blame=Blame.USER if is_users else Blame.REPORTED,
            message=str(error) if is_users else f"{method} failed. {error}",
            role=member[0],
            index=member[1],
        )
        self._on_failure(failure)
        raise failure.error()

    def _note_end(self, member: Member, request: Message, reply: pods_pb2.FinishReply) -> None:
        """Record a session's last readings; a short one may have ended between two heartbeats."""
        assert isinstance(request, pods_pb2.FinishRequest)
        pod = self._pods[member]
        with self._changed:
            pod.session = request.session
            pod.step = reply.steps_completed or pod.step
            pod.readings.update(reply.readings)

    def _watch(self) -> None:
        """Look for pods that ended or fell silent; body of the gang's thread."""
        reported: set[Member] = set()
        while not self._is_closed:
            for member, reason in self._losses(reported):
                reported.add(member)
                if self._is_closed:
                    break
                role, index = member
                self._on_failure(Failure(blame=Blame.LOST, message=reason, role=role, index=index))
        for pod in self._pods.values():
            if pod.pid_descriptor >= 0:
                os.close(pod.pid_descriptor)

    def _losses(self, known: Iterable[Member]) -> list[tuple[Member, str]]:
        with self._changed:
            watched = {pod.pid_descriptor: key for key, pod in self._pods.items()}
        watched = {fd: key for fd, key in watched.items() if fd >= 0 and key not in set(known)}
        ended, _, _ = select.select(list(watched), [], [], _POLL_SECONDS)
        losses = [
            (watched[fd], f"{self._pods[watched[fd]].name} ended while its job needed it.")
            for fd in ended
        ]
        gone = {key for key, _ in losses} | set(known)
        now = self._listened.tick()
        with self._changed:
            silent = [(key, self._silence(pod, now)) for key, pod in self._pods.items()]
        return losses + [(key, text) for key, text in silent if text and key not in gone]

    def _silence(self, pod: _Pod, now: float) -> str:
        """Return why a silent pod is given up; empty if it is not. Reports silences as it goes."""
        if pod.channel is None:
            return self._absence(pod, now)
        silence = now - pod.heard_seconds
        if silence < NOTICE_SECONDS:
            if pod.is_silent:
                pod.is_silent = False
                pod.process.answered()
                self._on_silence(pod.name, f"{pod.name} answers again.", False)
            return ""
        activity = pod.process.activity(silence)
        ailment = describe(activity, pod.pid)
        sentence = f"{pod.name} has not answered for {silence:.0f} s{ailment and ': ' + ailment}."
        limit = patience_seconds(activity, stall_seconds=self._stall_seconds)
        if silence > limit:
            return sentence
        if not pod.is_silent:
            pod.is_silent = True
            waits = f" The job waits for it, {limit:.0f} s at most."
            self._on_silence(pod.name, sentence + waits, True)
        return ""

    def _absence(self, pod: _Pod, now: float) -> str:
        """Return why a pod that has never registered is given up; reports one that is stopped."""
        if now > _REGISTER_SECONDS:
            return f"{pod.name} has not come up within {now:.0f} s."
        if now >= NOTICE_SECONDS and not pod.is_silent and (pid := self._pid_of(pod, now)):
            activity = SilentProcess(pid=pid).activity(now)
            if activity is Activity.STOPPED:
                pod.is_silent = True
                sentence = f"{pod.name} has not come up yet: {describe(activity, pid)}."
                self._on_silence(pod.name, sentence, True)
        return ""

    def _pid_of(self, pod: _Pod, now: float) -> int:
        """Return the process of a pod on this node that has not registered; 0 if it is not seen."""
        if now >= self._next_scan:
            self._next_scan = now + _SCAN_SECONDS
            self._unregistered = named_processes(self._spec.job)
        return self._unregistered.get(pod.name, 0)


def _open_pid(pid: int) -> int:
    """Return a descriptor that turns readable when the pod ends; -1 if it has ended."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        return -1
