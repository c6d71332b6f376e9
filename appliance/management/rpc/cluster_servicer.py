"""The client's ClusterManagement service."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from appliance.core.cluster.jobs import JobType, Phase
from appliance.core.cluster.records import JobRecord
from appliance.core.errors import ConflictError
from appliance.core.ids import JobId, WorkflowId
from appliance.management.access.authorization import asking
from appliance.management.changes.watch import JobWatch, wait_for_change
from appliance.management.cluster.inventory import Inventory
from appliance.management.jobs.job_service import NO_REASONS, JobService
from appliance.management.jobs.submissions import SubmissionService
from appliance.management.rpc.client_streams import ClientStreams, Standing
from appliance.management.rpc.told_failures import tells
from appliance.management.store import versions
from appliance.wire import cluster_jobs
from appliance.wire.caller import Caller, caller
from appliance.wire.requests.sdk_submissions import sdk_compile_submission, sdk_execute_submission
from appliance.wire.requests.submissions import Submission, compile_submission, execute_submission
from protos.appliance.common_config_pb2 import JobMode
from protos.cluster import cluster_pb2 as pb
from protos.cluster import cluster_pb2_grpc

Context = Any
"""gRPC's servicer context, whose class is generic in the messages of each method."""

_JOB_MODES = {
    JobType.COMPILE: JobMode.COMPILE,
    JobType.EXECUTE: JobMode.EXECUTE,
    JobType.DRIVER: JobMode.EXECUTE,
    JobType.SDK_COMPILE: JobMode.SDK_COMPILE,
    JobType.SDK_EXECUTE: JobMode.SDK_EXECUTE,
}
_PYTHON_IMAGE = "python:3.11"
_END_WAIT_SECONDS = 10.0


class ClusterServicer(cluster_pb2_grpc.ClusterManagementServicer):
    """Answers the client about jobs, workflows and the cluster. What it lacks is UNIMPLEMENTED."""

    def __init__(
        self,
        *,
        jobs: JobService,
        submissions: SubmissionService,
        inventory: Inventory,
        watch: JobWatch,
        streams: ClientStreams,
        needs_token: bool = False,
    ) -> None:
        self._needs_token = needs_token
        self._jobs = jobs
        self._submissions = submissions
        self._inventory = inventory
        self._watch = watch
        self._streams = streams

    def GetServerConfig(
        self, request: pb.GetServerConfigRequest, context: Context
    ) -> pb.GetServerConfigResponse:
        """Say what this server is; see `versions` for why the server's own is empty."""
        return pb.GetServerConfigResponse(
            is_user_auth_enabled=self._needs_token,
            cluster_server_semantic_version=versions.CLUSTER_SERVER_SEMVER,
            job_operator_semantic_version=versions.JOB_OPERATOR_SEMVER,
            supported_sidecar_images=[_PYTHON_IMAGE],
        )

    def GetServerVersions(
        self, request: pb.GetServerVersionsRequest, context: Context
    ) -> pb.GetServerVersionsResponse:
        """Name the client's own build, if this appliance serves it."""
        version, githash = versions.client_build(_caller(context).client_version)
        names = (pb.COMPONENT_NAME_CLUSTER_SERVER, pb.COMPONENT_NAME_JOB_OPERATOR)
        return pb.GetServerVersionsResponse(
            versions=[
                pb.ComponentVersion(name=name, version=f"{version}+{githash}") for name in names
            ]
        )

    def IsMessageBrokerAvailable(
        self, request: pb.MessageBrokerAvailabilityCheckRequest, context: Context
    ) -> pb.MessageBrokerAvailabilityCheckResponse:
        """There is no message broker."""
        return pb.MessageBrokerAvailabilityCheckResponse(is_available=False)

    def HasMultiMgmtNodes(
        self, request: pb.HasMultiMgmtNodesRequest, context: Context
    ) -> pb.HasMultiMgmtNodesResponse:
        """There is one management node."""
        return pb.HasMultiMgmtNodesResponse(has_multi_mgmt_nodes=False)

    def CheckStorageConnectivity(
        self, request: pb.CheckStorageConnectivityRequest, context: Context
    ) -> pb.CheckStorageConnectivityResponse:
        """Object storage is not served."""
        return pb.CheckStorageConnectivityResponse(
            is_reachable=False,
            message="This appliance reads and writes the user's file system, not object storage.",
        )

    def InitWorkflow(
        self, request: pb.InitWorkflowRequest, context: Context
    ) -> pb.InitWorkflowResponse:
        """Open a workflow."""
        workflow = self._submissions.open_workflow(
            _caller(context),
            seconds=request.lease_duration_seconds_override,
            reserve=request.resource_reserve,
        )
        self._streams.expect(context.peer(), workflow)
        return pb.InitWorkflowResponse(workflow_id=workflow)

    def ReleaseWorkflowResources(
        self, request: pb.ReleaseWorkflowResourcesRequest, context: Context
    ) -> pb.ReleaseWorkflowResourcesResponse:
        """Give up what a workflow reserved."""
        self._submissions.release_workflow(WorkflowId(request.workflow_id))
        self._watch.notify(JobId(request.workflow_id))
        return pb.ReleaseWorkflowResourcesResponse(
            message=f"Workflow {request.workflow_id} holds no resources any more."
        )

    def ReserveJobResources(
        self, request: pb.ReserveJobResourcesRequest, context: Context
    ) -> pb.ReserveJobResourcesResponse:
        """Let the job's workflow keep what its jobs get."""
        job = self._jobs.load(JobId(request.job_id))
        self._submissions.reserve_for(job)
        return pb.ReserveJobResourcesResponse(
            message=f"Workflow {job.workflow} keeps what its jobs get until it is released."
        )

    def ReleaseJobResources(
        self, request: pb.ReleaseJobResourcesRequest, context: Context
    ) -> pb.ReleaseJobResourcesResponse:
        """Let the job's workflow give up what it keeps; the job goes on with what it holds."""
        job = self._jobs.load(JobId(request.job_id))
        self._submissions.release_for(job)
        return pb.ReleaseJobResourcesResponse(
            message=f"Workflow {job.workflow} keeps nothing any more."
        )

    def GetReservationStatus(
        self, request: pb.GetReservationStatusRequest, context: Context
    ) -> pb.GetReservationStatusResponse:
        """Say how many systems the job's workflow keeps, or else the job itself holds."""
        job = self._jobs.load(JobId(request.job_id))
        kept = self._inventory.reserved_systems(job.workflow)
        held = job.systems if job.phase.holds_resources else ()
        return pb.GetReservationStatusResponse(system_count=len(kept or held))

    def InitImageBuildJob(
        self, request: pb.InitImageBuildRequest, context: Context
    ) -> pb.ImageBuildResponse:
        """No image is built: input workers run in the user's environment."""
        return pb.ImageBuildResponse(mount_user_venv=True)

    def GetImageBuildJob(
        self, request: pb.ImageBuildRequest, context: Context
    ) -> pb.ImageBuildResponse:
        """No image is built."""
        return pb.ImageBuildResponse(mount_user_venv=True, status=pb.JOB_STATUS_SUCCEEDED)

    def DeleteImageBuildJob(
        self, request: pb.ImageBuildRequest, context: Context
    ) -> pb.ImageBuildResponse:
        """No image was built."""
        return pb.ImageBuildResponse(mount_user_venv=True, status=pb.JOB_STATUS_DELETED)

    async def InitCompileJob(
        self, request: pb.CompileJobRequest, context: Context
    ) -> pb.CompileJobResponse:
        """Queue a compile job."""
        submission = compile_submission(request)
        compile_dir = self._submissions.compile_dir(submission.compile_dir)
        job = await self._submit(submission, context)
        return pb.CompileJobResponse(
            job_id=job.id,
            log_path=f"{job.work_dir}/logs",
            compile_dir_absolute_path=str(compile_dir),
            workflow_id=job.workflow,
        )

    async def InitExecuteJob(
        self, request: pb.ExecuteJobRequest, context: Context
    ) -> pb.ExecuteJobResponse:
        """Queue an execute job."""
        job = await self._submit(execute_submission(request), context)
        return pb.ExecuteJobResponse(
            job_id=job.id, log_path=f"{job.work_dir}/logs", workflow_id=job.workflow
        )

    async def InitSdkCompileJob(
        self, request: pb.SdkCompileJobRequest, context: Context
    ) -> pb.SdkCompileJobResponse:
        """Queue a job in which CSL is compiled, or run on a simulated fabric."""
        self._submissions.compile_dir(request.compile_dir_relative_path)
        job = await self._submit(sdk_compile_submission(request), context)
        return pb.SdkCompileJobResponse(
            job_id=job.id, log_path=f"{job.work_dir}/logs", workflow_id=job.workflow
        )

    async def InitSdkExecuteJob(
        self, request: pb.SdkExecuteJobRequest, context: Context
    ) -> pb.SdkExecuteJobResponse:
        """Queue a job in which CSL runs on a system of its own."""
        job = await self._submit(sdk_execute_submission(request), context)
        return pb.SdkExecuteJobResponse(
            job_id=job.id, log_path=f"{job.work_dir}/logs", workflow_id=job.workflow
        )

    def FinalizeCompileJob(
        self, request: pb.CompileResultRequest, context: Context
    ) -> pb.CompileResultResponse:
        """Keep where the artifacts are."""
        self._jobs.finalize_compile(JobId(request.job_id), request.compile_artifact_dir)
        return pb.CompileResultResponse(message="Compile artifacts are recorded.")

    async def PollIngressV2(
        self, request: pb.GetIngressRequest, context: Context
    ) -> AsyncIterator[pb.GetIngressResponse]:
        """Tell of each change until the job's door is open, or never will be."""
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
        """Renew a lease at each beat and say how its job fares."""
        async with aclosing(self._streams.beats(request_iterator, context.peer())) as answers:
            async for answer in answers:
                yield answer

    def SendClientHeartbeat(
        self, request: pb.HeartbeatRequest, context: Context
    ) -> pb.HeartbeatResponse:
        """Older form of `HeartbeatV2`."""
        return self._streams.beat(request)

    def GetJob(self, request: pb.GetJobRequest, context: Context) -> pb.GetJobResponse:
        """Say how a job fares, and why it failed if it did."""
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
        version, _ = versions.client_build(_caller(context).client_version)
        system = json.dumps({"product": version, "execmode": "SIMULATED", "components": {}})
        return pb.GetJobMetaResponse(
            job_mode=_JOB_MODES[job.type],
            cluster_details=self._jobs.cluster_details(job.id),
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
        if phase is Phase.FAILED and ended is Phase.FAILED:
            record = await self._jobs.look(self._jobs.load, job)
            if request.message not in NO_REASONS and not tells(request.message, record.message):
                raise ConflictError(f"Job {job} had failed already. {record.message}")
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

    def ReportMetrics(
        self, request: pb.ReportMetricRequest, context: Context
    ) -> pb.ReportMetricResponse:
        """Accept the client's metrics; they are not kept yet."""
        return pb.ReportMetricResponse(code=pb.ReportMetricResponse.SUCCESS)

    async def _submit(self, submission: Submission, context: Context) -> JobRecord:
        job = await self._submissions.submit(submission, _caller(context))
        self._streams.expect(context.peer(), job.id)
        return job


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


def _caller(context: Context) -> Caller:
    return replace(caller(context.invocation_metadata()), user=asking())
