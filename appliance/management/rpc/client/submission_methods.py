"""The client's ClusterManagement service: workflows, what they reserve, and new jobs."""

from appliance.core.cluster.records import JobRecord
from appliance.core.ids import JobId, WorkflowId
from appliance.management.changes.watch import JobWatch
from appliance.management.cluster.inventory import Inventory
from appliance.management.jobs.job_service import JobService
from appliance.management.jobs.submissions import SubmissionService
from appliance.management.rpc.call_context import Context, caller_of
from appliance.management.rpc.client.client_streams import ClientStreams
from appliance.wire.requests.sdk_submissions import sdk_compile_submission, sdk_execute_submission
from appliance.wire.requests.submissions import Submission, compile_submission, execute_submission
from protos.cluster import cluster_pb2 as pb


class SubmissionMethods:
    """Handles the client's submissions.

    Args:
        jobs: Reads jobs.
        submissions: Takes in jobs and workflows.
        inventory: What is reserved.
        watch: Told of what changes.
        streams: Told which calls are to be expected.
    """

    def __init__(
        self,
        jobs: JobService,
        submissions: SubmissionService,
        inventory: Inventory,
        watch: JobWatch,
        streams: ClientStreams,
    ) -> None:
        self._jobs = jobs
        self._submissions = submissions
        self._inventory = inventory
        self._watch = watch
        self._streams = streams

    def InitWorkflow(
        self, request: pb.InitWorkflowRequest, context: Context
    ) -> pb.InitWorkflowResponse:
        """Open a workflow."""
        workflow = self._submissions.open_workflow(
            caller_of(context),
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
        """Let the job's workflow retain what its jobs get."""
        job = self._jobs.load(JobId(request.job_id))
        self._submissions.reserve_for(job)
        return pb.ReserveJobResourcesResponse(
            message=f"Workflow {job.workflow} keeps what its jobs get until it is released."
        )

    def ReleaseJobResources(
        self, request: pb.ReleaseJobResourcesRequest, context: Context
    ) -> pb.ReleaseJobResourcesResponse:
        """Let the job's workflow release what it retains; the job goes on with what it holds."""
        job = self._jobs.load(JobId(request.job_id))
        self._submissions.release_for(job)
        return pb.ReleaseJobResourcesResponse(
            message=f"Workflow {job.workflow} keeps nothing any more."
        )

    def GetReservationStatus(
        self, request: pb.GetReservationStatusRequest, context: Context
    ) -> pb.GetReservationStatusResponse:
        """Return how many systems the job's workflow retains, or else the job itself holds."""
        job = self._jobs.load(JobId(request.job_id))
        kept = self._inventory.reserved_systems(job.workflow)
        held = job.systems if job.phase.holds_resources else ()
        return pb.GetReservationStatusResponse(system_count=len(kept or held))

    async def InitCompileJob(
        self, request: pb.CompileJobRequest, context: Context
    ) -> pb.CompileJobResponse:
        """Queue a compile job."""
        submission = compile_submission(request)
        user = caller_of(context).user
        compile_dir = self._submissions.compile_dir(submission.compile_dir, user)
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
        user = caller_of(context).user
        self._submissions.compile_dir(request.compile_dir_relative_path, user)
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
        """Store where the artifacts are."""
        self._jobs.finalize_compile(JobId(request.job_id), request.compile_artifact_dir)
        return pb.CompileResultResponse(message="Compile artifacts are recorded.")

    async def _submit(self, submission: Submission, context: Context) -> JobRecord:
        job = await self._submissions.submit(submission, caller_of(context))
        self._streams.expect(context.peer(), job.id)
        return job
