"""The two parts of the internal Management service, which coordinators and pods call."""

import asyncio
import datetime as dt
import math
from typing import Protocol

from appliance.core.addresses import is_loopback, is_same_host, split_address
from appliance.core.clock import Clock
from appliance.core.cluster.jobs import Phase
from appliance.core.cluster.records import EventRecord, PodRecord
from appliance.core.cluster.run import PodReadings, Point, RunSession
from appliance.core.errors import ClusterError, ForbiddenError, UserError
from appliance.core.ids import JobId, PodName, Role, pod_name
from appliance.management.changes.watch import JobWatch, wait_for_change
from appliance.management.jobs.job_service import JobService
from appliance.management.pods.coordinators import CoordinatorAddresses
from appliance.management.pods.held_ports import HeldPorts
from appliance.management.rpc.call_context import Context
from appliance.management.rpc.client.lease_beats import Presence
from appliance.management.rpc.job_keys import KeyOf, check_key
from appliance.storage.queue.series import MAX_NAME
from appliance.wire.job_times import masked_weights_of
from protos.wsc.v1 import management_pb2 as pb

_MAX_COMPILE_POLL_SECONDS = 30.0


class KnownPods(Protocol):
    """What is known of pods."""

    def coordinator_hosts(self, job: JobId) -> frozenset[str]:
        """Return by what the coordinator of a job is reached; empty while that is not known."""
        ...

    def may_start(self, job: JobId) -> bool:
        """Whether the pods of a job may run, where they are placed before they run."""
        ...


class PodPlaces:
    """Where coordinators listen, and whether pods may start.

    Args:
        jobs: Told of coordinators that listen.
        addresses: Where coordinators of other nodes are.
        ports: Keeps the ports of those of this node from others.
        pods: What others than the pods themselves say of them.
        key_of: See `KeyOf`.
    """

    def __init__(
        self,
        jobs: JobService,
        addresses: CoordinatorAddresses,
        ports: HeldPorts,
        pods: KnownPods,
        *,
        key_of: KeyOf,
    ) -> None:
        self._jobs, self._addresses, self._ports = jobs, addresses, ports
        self._pods = pods
        self._key_of = key_of

    async def RegisterCoordinator(
        self, request: pb.RegisterCoordinatorRequest, context: Context
    ) -> pb.RegisterCoordinatorReply:
        """Record that the coordinator listens: the job's ingress is open.

        Management and the front connect to the addresses, and clients are sent there. So they are
        of the pod or node that the coordinator runs on.
        """
        job, address = JobId(request.job), request.service_address
        check_key(self._key_of, job, context)
        is_here = request.control_address.startswith("unix:")
        self._check_address(job, address)
        self._ports.check_safe(address)
        if request.control_address and not is_here:
            self._check_address(job, request.control_address)
        if not is_here:
            await asyncio.to_thread(self._note_far, job, request.control_address)
        committed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        await self._jobs.look(self._jobs.coordinator_registered, job, address, committed)
        await committed
        if is_here:
            await self._hold_port(job)
        return pb.RegisterCoordinatorReply()

    async def _hold_port(self, job: JobId) -> None:
        record = await self._jobs.look(self._jobs.find, job)
        if record is not None:
            self._ports.hold(record)
            record = await self._jobs.look(self._jobs.find, job)
        if record is None or record.phase.is_terminal:  # before it was held, or since
            self._ports.job_ended(job)

    def FindCoordinator(
        self, request: pb.FindCoordinatorRequest, context: Context
    ) -> pb.FindCoordinatorReply:
        """Where a pod on another node finds its coordinator."""
        job = JobId(request.job)
        check_key(self._key_of, job, context)
        return pb.FindCoordinatorReply(control_address=self._addresses.find(job))

    def AskStart(self, request: pb.AskStartRequest, context: Context) -> pb.AskStartReply:
        """Whether a pod that has a node may run: whether all pods of its job have one."""
        job = JobId(request.job)
        check_key(self._key_of, job, context)
        return pb.AskStartReply(may_start=self._pods.may_start(job))

    def _check_address(self, job: JobId, address: str) -> None:
        try:
            host, _ = split_address(address)
        except ValueError as error:
            raise UserError(
                f"{address!r} is no host:port at which a coordinator listens."
            ) from error
        hosts = self._pods.coordinator_hosts(job)
        if not hosts:
            raise ClusterError(f"It is not known yet where the coordinator of job {job} runs.")
        if not any(_is_at(host, each) for each in hosts):
            raise ForbiddenError(
                f"The coordinator of job {job} says that it listens at {host}, and it runs at "
                f"{', '.join(sorted(hosts))}."
            )

    def _note_far(self, job: JobId, address: str) -> None:
        self._jobs.load(job)  # that it is known, before anything is written for it
        self._addresses.note(job, address)


def _is_at(host: str, known: str) -> bool:
    """Whether a host is a known one; clients are told no loopback address, but its name."""
    return is_same_host(host, known) or (host == "localhost" and is_loopback(known))


class JobReports:
    """Takes what coordinators report and ask.

    Args:
        jobs: What is done to jobs.
        watch: Tells of changes.
        clock: Times waiting.
        presence: Is told which clients live.
        key_of: See `KeyOf`.
    """

    def __init__(
        self, jobs: JobService, watch: JobWatch, clock: Clock, presence: Presence, *, key_of: KeyOf
    ) -> None:
        self._jobs = jobs
        self._watch = watch
        self._clock = clock
        self._presence = presence
        self._key_of = key_of

    def ReportJob(self, request: pb.JobReport, context: Context) -> pb.JobReportReply:
        """How the job fares."""
        job = JobId(request.job)
        check_key(self._key_of, job, context)
        if request.phase and request.phase not in Phase.__members__:
            raise UserError(f"{request.phase!r} is no phase.")
        if request.has_client:
            self._presence.seen(job)
            if (record := self._jobs.find(job)) is not None:
                self._presence.seen(record.workflow)
        self._jobs.reported(
            job,
            phase=request.phase,
            message=request.message,
            pods=[_pod(job, report) for report in request.pods],
            events=[self._event(job, report) for report in request.events],
            points=[_point(report) for report in request.points],
            session=self._session(request) if request.HasField("session") else None,
        )
        return pb.JobReportReply()

    async def RequestCompile(
        self, request: pb.RequestCompileRequest, context: Context
    ) -> pb.RequestCompileReply:
        """A compile job wants what compiling takes: answer once it has it, or say why it waits."""
        job = JobId(request.job)
        check_key(self._key_of, job, context)
        seconds = min(request.wait_seconds, _MAX_COMPILE_POLL_SECONDS)
        deadline = self._clock.monotonic_seconds() + seconds
        with self._watch.follow(job) as changed:
            await asyncio.to_thread(
                self._jobs.request_compile,
                job,
                num_systems=max(0, request.num_systems),
                is_cached=request.is_cached,
            )
            if request.is_cached:
                return pb.RequestCompileReply(is_granted=True)
            while not await asyncio.to_thread(self._jobs.may_compile, job):
                remaining = deadline - self._clock.monotonic_seconds()
                if remaining <= 0:
                    return await asyncio.to_thread(self._why_no_compile, job)
                await wait_for_change(changed, remaining)
                changed.clear()
        return pb.RequestCompileReply(is_granted=True)

    def _why_no_compile(self, job: JobId) -> pb.RequestCompileReply:
        wait = self._jobs.wait_of(job)
        if wait is None:
            return pb.RequestCompileReply()
        return pb.RequestCompileReply(reason=wait.reason, position=wait.position + 1)

    def _session(self, request: pb.JobReport) -> RunSession:
        report, now = request.session, self._clock.now()
        if report.session < 1:
            raise UserError(f"There is no session {report.session}; they are counted from 1.")
        seconds = report.step_seconds
        return RunSession(
            number=report.session,
            is_training=report.is_training,
            num_steps=report.num_steps,
            completed_steps=report.completed_steps,
            step_seconds=seconds if math.isfinite(seconds) and seconds > 0 else 0.0,
            started_at=now,
            ended_at=now if report.is_over else None,
            pods={PodName(pod.pod): _readings(pod) for pod in request.pods}
            if report.is_over
            else {},
            masked_weights=masked_weights_of(report.masked_weights)
            if report.HasField("masked_weights")
            else None,
        )

    def _event(self, job: JobId, report: pb.JobEventReport) -> EventRecord:
        return EventRecord(
            job=job,
            at=self._clock.now(),
            reason=report.reason,
            message=report.message,
            subject=report.pod or job,
            is_warning=report.is_warning,
        )


def _point(report: pb.SeriesPoint) -> Point:
    return Point(
        name=report.name[:MAX_NAME],
        session=report.session,
        step=report.step,
        value=report.value if math.isfinite(report.value) else None,
        at=_time(report.at_seconds),
    )


def _time(seconds: float) -> dt.datetime:
    try:
        return dt.datetime.fromtimestamp(seconds, dt.UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise UserError(f"{seconds!r} seconds are no time of a value of training.") from error


def _pod(job: JobId, report: pb.PodReport) -> PodRecord:
    is_role = report.role in Role.__members__.values()
    if not is_role or report.pod != pod_name(job, Role(report.role), report.index):
        raise ForbiddenError(f"{report.pod!r} is no pod of job {job}, which reports of it.")
    return PodRecord(
        name=PodName(report.pod),
        job=job,
        role=Role(report.role),
        index=report.index,
        node="",
        pid=report.pid,
        step=report.step,
        resident_bytes=report.resident_bytes,
        readings=dict(report.readings),
    )


def _readings(report: pb.PodReport) -> PodReadings:
    return PodReadings(
        step=report.step, resident_bytes=report.resident_bytes, readings=dict(report.readings)
    )
