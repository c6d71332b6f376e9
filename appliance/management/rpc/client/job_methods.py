"""The client's ClusterManagement service: state and end of its jobs."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing

from appliance.core.cluster.jobs import JobType, Phase
from appliance.core.ids import JobId
from appliance.management.changes.watch import JobWatch, wait_for_change
from appliance.management.jobs.job_service import JobService
from appliance.management.jobs.submissions import SubmissionService
from appliance.management.rpc.call_context import Context
from appliance.management.rpc.client.client_streams import ClientStreams
from appliance.management.rpc.client.lease_beats import Standing
from appliance.management.rpc.client.reported_failures import require_told
from appliance.management.store import versions
from appliance.wire import cluster_jobs
from protos.appliance.common_config_pb2 import JobMode
from protos.cluster import cluster_pb2 as pb

_JOB_MODES = {
    JobType.COMPILE: JobMode.COMPILE,
    JobType.EXECUTE: JobMode.EXECUTE,
    JobType.DRIVER: JobMode.EXECUTE,
    JobType.SDK_COMPILE: JobMode.SDK_COMPILE,
    JobType.SDK_EXECUTE: JobMode.SDK_EXECUTE,
}
_END_WAIT_SECONDS = 10.0


class JobMethods:
    """Answers the client about jobs that it has submitted.

    Args:
        jobs: Reads jobs and ends them.
        submissions: Told that a client knows where its job is.
        watch: Says when something of a job changes.
        streams: Long calls.
    """

    def __init__(
        self,
        jobs: JobService,
        submissions: SubmissionService,
        watch: JobWatch,
        streams: ClientStreams,
    ) -> None:
        self._jobs = jobs
        self._submissions = submissions
        self._watch = watch
        self._streams = streams

    async def PollIngressV2(
        self, request: pb.GetIngressRequest, context: Context
    ) -> AsyncIterator[pb.GetIngressResponse]:
        """Send each change until the job's ingress is open, or never will be."""
        job = JobId(request.job_id)
        async with aclosing(self._streams.ingress(job, context.peer())) as changes:
            async for ingress, seen in changes:
                if seen is not Standing.UNKNOWN:
                    self._submissions.client_knows(job)
                yield pb.GetIngressResponse(
                    is_ready=ingress.is_ready,
                    service_url=ingress.service_address,
                    service_authority=ingress.service_authority,
                    message=ingress.message,
                    job_failed=ingress.has_failed,
                    is_scheduled=ingress.is_scheduled,
                )

    def PollIngress(
        self, request: pb.GetIngressRequest, context: Context
    ) -> AsyncIterator[pb.GetIngressResponse]:
        """Older form of `PollIngressV2`."""
        return self.PollIngressV2(request, context)

    async def HeartbeatV2(
        self, request_iterator: AsyncIterator[pb.HeartbeatRequest], context: Context
    ) -> AsyncIterator[pb.HeartbeatResponse]:
        """Renew a lease at each beat and send the state of its job."""
        async with aclosing(self._streams.beats(request_iterator, context.peer())) as answers:
            async for answer in answers:
                yield answer

    def SendClientHeartbeat(
        self, request: pb.HeartbeatRequest, context: Context
    ) -> pb.HeartbeatResponse:
        """Older form of `HeartbeatV2`."""
        return self._streams.beat(request)

    def GetJob(self, request: pb.GetJobRequest, context: Context) -> pb.GetJobResponse:
        """Return the state of a job, and why it failed if it did."""
        job = self._jobs.load(JobId(request.job_id))
        return pb.GetJobResponse(
            status=cluster_jobs.status(job.phase),
            message=job.message,
            uid=job.user.uid,
            gid=job.user.gid,
            job_events=cluster_jobs.job_events(self._jobs.warnings(job.id)),
            dashboard=self._jobs.dashboard(job.id),
        )

    def GetJobEvents(
        self, request: pb.GetJobEventsRequest, context: Context
    ) -> pb.GetJobEventsResponse:
        """Return what the user should be warned of: the client prints each as a warning."""
        job = self._jobs.load(JobId(request.job_id))
        events = cluster_jobs.job_events(self._jobs.warnings(job.id))
        return pb.GetJobEventsResponse(job_events=events)

    def GetJobInitStatus(
        self, request: pb.GetJobInitStatusRequest, context: Context
    ) -> pb.GetJobInitStatusResponse:
        """Say what a starting job waits for."""
        return pb.GetJobInitStatusResponse(status=self._jobs.ingress(JobId(request.job_id)).message)

    def GetJobMeta(self, request: pb.GetJobMetaRequest, context: Context) -> pb.GetJobMetaResponse:
        """Return a job's tasks and the versions of what it runs on."""
        job = self._jobs.load(JobId(request.job_id))
        version, _ = versions.client_build(job.client_release)
        system = json.dumps({"product": version, "execmode": "SIMULATED", "components": {}})
        return pb.GetJobMetaResponse(
            job_mode=_JOB_MODES[job.type],
            cluster_details=self._jobs.requests.cluster_details(job),
            software_versions={"cluster-server": version, "job-operator": version},
            system_versions=dict.fromkeys(job.systems, system),
        )

    async def CancelJobV2(
        self, request: pb.CancelJobRequest, context: Context
    ) -> pb.CancelJobResponse:
        """End a job as its client says, and wait until nothing of it runs any more.

        A client whose job was refused at once has no id for it and sends an empty one. One that
        gives another reason for a failure than the job's own is told that, as what it prints last.
        """
        if not request.job_id:
            return pb.CancelJobResponse(message="There was no job to end.")
        job = JobId(request.job_id)
        phase = cluster_jobs.final_phase(request.job_status)
        await self._jobs.look(self._jobs.end, job, phase, request.message)
        ended = await wait_until_ended(self._jobs, self._watch, job)
        if phase is Phase.FAILED and ended in (Phase.FAILING, Phase.FAILED):
            record = await self._jobs.look(self._jobs.load, job)
            require_told(job, request.message, record.message)
        return pb.CancelJobResponse(message=f"Job {job} is {ended.value}.")

    async def CancelJob(
        self, request: pb.CancelJobRequest, context: Context
    ) -> pb.CancelJobResponse:
        """Older form of `CancelJobV2`."""
        return await self.CancelJobV2(request, context)

    def DeleteJob(self, request: pb.DeleteJobRequest, context: Context) -> pb.DeleteJobResponse:
        """Forget a job that has ended."""
        self._jobs.delete(JobId(request.job_id))
        return pb.DeleteJobResponse(message=f"Job {request.job_id} is deleted.")


async def wait_until_ended(jobs: JobService, watch: JobWatch, job: JobId) -> Phase:
    """Wait until nothing of a job runs any more, or for some seconds.

    Returns:
        The job's phase at last.
    """
    deadline = asyncio.get_running_loop().time() + _END_WAIT_SECONDS
    with watch.follow(job) as changed:
        while True:
            changed.clear()
            record = await jobs.look(jobs.find, job)
            phase = record.phase if record else Phase.CANCELLED
            remaining = deadline - asyncio.get_running_loop().time()
            if phase.is_terminal or remaining <= 0:
                return phase
            await wait_for_change(changed, remaining)
