"""Decides what the client's streams may see, by how well their caller is identified.

With the address of a job's coordinator and its authority one can act as the job's client, so they
are told only to callers whom `ATTACH_JOB` allows it, once identified. With tokens a stream brings
no proof: the client identifies itself on the same connection, at the latest when it hears that its
job is scheduled, because it then asks for the job's events (see `connections`). Until then such a
stream is told as much as the client needs to continue.
"""

import asyncio
import threading
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractContextManager, aclosing, nullcontext
from dataclasses import replace
from enum import Enum

from appliance.core.clock import Clock
from appliance.core.cluster.access import Action, Principal, Target, refusal
from appliance.core.errors import ForbiddenError, NotFoundError
from appliance.core.ids import JobId, WorkflowId
from appliance.management.access.authorization import asking_principal, job_target
from appliance.management.changes.watch import JobWatch, wait_for_change
from appliance.management.cluster.inventory import Inventory
from appliance.management.jobs.job_service import Ingress, JobService
from appliance.management.rpc.access_edge import lease_target
from appliance.management.rpc.client.heartbeats import HeartbeatStreams
from appliance.management.rpc.connections import Connections, OwnProof, Proof
from appliance.management.store.state import State
from protos.cluster.cluster_pb2 import HeartbeatRequest, HeartbeatResponse

_RECHECK_SECONDS = 30.0
_UNPROVED_LEASES = 10
"""Leases that beats alone may keep up what holds resources without a proof that its client lives.
A client that has lost its connection gives none before its next ordinary call or, while its job
runs, its next call to the coordinator; both come within seconds of each other in a live run."""
_MAX_KNOWN = 10_000

_NO_PROOF = "Waiting for job running; nobody has proved on this connection that it is their job."
_ENDED = "The job has ended; `csctl get job` says why."


class Standing(Enum):
    """How sure it is that the job's own client is at the other end of a stream."""

    PROVED = "proved"
    LIKELY = "likely"
    UNKNOWN = "unknown"


def standing(sure: Principal | None, likely: Principal | None, target: Target) -> Standing:
    """Return how well a stream is proven to come from the client of a job or workflow.

    Args:
        sure: Who is at the other end; None if that is not sure.
        likely: Who most likely is; None if that cannot be said.
        target: The job or workflow.

    Raises:
        ForbiddenError: Somebody is there who may not.
    """
    principal = sure or likely
    if principal is None:
        return Standing.UNKNOWN
    if (why := refusal(principal, Action.ATTACH_JOB, target)) is not None:
        raise ForbiddenError(why)
    return Standing.LIKELY if sure is None else Standing.PROVED


def told(ingress: Ingress, seen: Standing) -> Ingress:
    """Return as much of the state of a job's ingress as a stream may be told."""
    if seen is Standing.PROVED:
        return ingress
    if ingress.is_ready:
        return Ingress(message=_NO_PROOF, is_scheduled=True)
    if seen is Standing.LIKELY:
        return ingress
    message = _ENDED if ingress.has_failed else _NO_PROOF
    return replace(ingress, message=message)


class Presence:
    """When the clients of jobs and workflows have last been known to live.

    Args:
        clock: Source of time.
        lease_seconds: Life of a job without a sign of its client.
    """

    def __init__(self, clock: Clock, lease_seconds: float) -> None:
        self._clock = clock
        self._limit_seconds = lease_seconds * _UNPROVED_LEASES
        self._lock = threading.Lock()
        self._seen: OrderedDict[str, float] = OrderedDict()

    def seen(self, lease_id: str) -> None:
        """Take note that a client has proved that it lives."""
        with self._lock:
            self._seen[lease_id] = self._clock.monotonic_seconds()
            self._seen.move_to_end(lease_id)
            if len(self._seen) > _MAX_KNOWN:
                self._seen.popitem(last=False)

    def is_recent(self, lease_id: str) -> bool:
        """Whether a client was seen not too long ago; one that is not known counts as seen now.

        After a restart that is everyone.
        """
        with self._lock:
            at = self._seen.get(lease_id)
        if at is None:
            self.seen(lease_id)
            return True
        return self._clock.monotonic_seconds() - at <= self._limit_seconds


class ClientStreams:
    """Answers the client's streams.

    Args:
        state: The appliance's database.
        jobs: Questions about jobs.
        inventory: Knows what workflows keep.
        watch: Tells of changes.
        connections: Know who has proved themselves on which.
        presence: Remembers who was seen.
    """

    def __init__(
        self,
        state: State,
        jobs: JobService,
        inventory: Inventory,
        watch: JobWatch,
        *,
        connections: Connections,
        presence: Presence,
    ) -> None:
        self._state, self._jobs, self._inventory = state, jobs, inventory
        self._watch = watch
        self._connections, self._presence = connections, presence
        self._heartbeats = HeartbeatStreams(watch, jobs.has_lease)

    def expect(self, peer: str, lease_id: str) -> None:
        """Take note that a client has just got a job or workflow, and will open streams for it."""
        self._presence.seen(lease_id)
        self._heartbeats.expect(peer, lease_id)

    async def ingress(self, job: JobId, peer: str) -> AsyncGenerator[tuple[Ingress, Standing]]:
        """Send each change until the job's ingress is open, or never will be.

        Yields:
            How far it is, as much as may be told, and how sure it is who is told.
        """
        last: Ingress | None = None
        with self._watch.follow(job) as changed, self._identified(peer, changed) as proof:
            while last is None or not last.is_final:
                changed.clear()
                ingress, seen = await self._jobs.look(self._ingress, job, proof)
                if ingress != last:
                    yield ingress, seen
                last = ingress
                if not ingress.is_final:
                    await wait_for_change(changed, _RECHECK_SECONDS)

    async def beats(
        self, requests: AsyncIterator[HeartbeatRequest], peer: str
    ) -> AsyncGenerator[HeartbeatResponse]:
        """Renew a lease at each beat and send the state of its job."""
        with self._identified(peer, asyncio.Event()) as proof:

            def answer(beat: HeartbeatRequest) -> HeartbeatResponse:
                return self._beat(beat, proof.proved, proof.likely)

            async with aclosing(self._heartbeats.serve(requests, peer, answer)) as responses:
                async for response in responses:
                    yield response

    def beat(self, beat: HeartbeatRequest) -> HeartbeatResponse:
        """Answer one beat of an authenticated caller who may send it."""
        principal = asking_principal()
        return self._beat(beat, principal, principal)

    def _identified(
        self, peer: str, changed: asyncio.Event
    ) -> AbstractContextManager[Proof | OwnProof]:
        """Return what is known of a stream's caller: for sure where it was identified itself."""
        asked = asking_principal()
        if asked is not None:
            return nullcontext(OwnProof(asked))
        return self._connections.stream(peer, changed)

    def _ingress(self, job: JobId, proof: Proof | OwnProof) -> tuple[Ingress, Standing]:
        target = job_target(self._jobs.load(job))
        seen = standing(proof.proved, proof.likely, target)
        return told(self._jobs.ingress(job), seen), seen

    def _beat(
        self, beat: HeartbeatRequest, sure: Principal | None, likely: Principal | None
    ) -> HeartbeatResponse:
        lease = str(beat.lease_id or beat.job_id)
        seen = standing(sure, likely, lease_target(lease, self._state))
        if seen is not Standing.UNKNOWN:
            self._presence.seen(lease)
        is_renewed = self._counts(lease, seen) and self._jobs.renew_lease(
            lease, holder=beat.host_name, seconds=beat.lease_duration_seconds_override
        )
        try:
            ingress = told(self._jobs.ingress(JobId(lease)), seen)
        except NotFoundError:  # the lease of a workflow
            message = "lease renewed" if is_renewed else f"there is no lease {lease!r}"
            return HeartbeatResponse(message=message, job_failed=not is_renewed)
        return HeartbeatResponse(
            message=ingress.message,
            service_url=ingress.service_address,
            service_authority=ingress.service_authority,
            job_failed=ingress.has_failed,
            is_scheduled=ingress.is_scheduled,
            is_ready=ingress.is_ready,
        )

    def _counts(self, lease: str, seen: Standing) -> bool:
        """Whether a beat renews a lease."""
        if seen is not Standing.UNKNOWN:
            return True
        record = self._jobs.find(JobId(lease))
        if record is not None:
            holds = record.phase.holds_resources
        else:
            holds = bool(self._inventory.reserved_systems(WorkflowId(lease)))
        return not holds or self._presence.is_recent(lease)
