"""Decides what the client's streams may see, by how well their caller is identified.

With the address of a job's coordinator and its authority one can act as the job's client, so they
are told only to callers whom `ATTACH_JOB` allows it, once identified. With tokens a stream brings
no proof: the client identifies itself on the same connection, at the latest when it hears that its
job is scheduled, because it then asks for the job's events (see `connections`). Until then such a
stream is told as much as the client needs to continue.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractContextManager, aclosing, nullcontext
from dataclasses import replace

from appliance.core.cluster.access import Principal
from appliance.core.errors import NotFoundError
from appliance.core.ids import JobId
from appliance.management.access.authorization import asking_principal, job_target
from appliance.management.changes.watch import JobWatch, wait_for_change
from appliance.management.jobs.job_service import Ingress, JobService
from appliance.management.rpc.client.heartbeats import HeartbeatStreams
from appliance.management.rpc.client.lease_beats import LeaseBeats, Standing, standing
from appliance.management.rpc.connections import Connections, OwnProof, Proof
from protos.cluster.cluster_pb2 import HeartbeatRequest, HeartbeatResponse

_RECHECK_SECONDS = 30.0

_NO_PROOF = "Waiting for job running; nobody has proved on this connection that it is their job."
_ENDED = "The job has ended; `csctl get job` says why."


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


class ClientStreams:
    """Answers the client's streams.

    Args:
        jobs: Questions about jobs.
        watch: Tells of changes.
        connections: Know who has proved themselves on which.
        leases: Renews leases by beats.
        still: Says what a caller who has proved themselves before may do now; see `Access.still`.
    """

    def __init__(
        self,
        jobs: JobService,
        watch: JobWatch,
        connections: Connections,
        leases: LeaseBeats,
        still: Callable[[Principal], Principal | None],
    ) -> None:
        self._jobs, self._watch, self._still = jobs, watch, still
        self._connections, self._leases = connections, leases
        self._heartbeats = HeartbeatStreams(watch, jobs.has_lease)

    def expect(self, peer: str, lease_id: str) -> None:
        """Take note that a client has just got a job or workflow, and will open streams for it."""
        self._leases.presence.seen(lease_id)
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
                return self._beat(beat, *self._now(proof))

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
        seen = standing(*self._now(proof), target)
        return told(self._jobs.ingress(job), seen), seen

    def _now(self, proof: Proof | OwnProof) -> tuple[Principal | None, Principal | None]:
        """Return who is at a stream's other end for sure, and most likely, as of this moment.

        Streams stay open for days, in which tokens are revoked and roles taken away.
        """
        sure, likely = proof.proved, proof.likely
        return sure and self._still(sure), likely and self._still(likely)

    def _beat(
        self, beat: HeartbeatRequest, sure: Principal | None, likely: Principal | None
    ) -> HeartbeatResponse:
        lease = str(beat.lease_id or beat.job_id)
        seen, is_renewed = self._leases.renew(lease, beat, sure, likely)
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
