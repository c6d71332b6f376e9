"""The CsCtlV1 service, for csctl and for the client's own questions about the cluster."""

import asyncio
import datetime as dt
import json
from collections.abc import AsyncIterator, Mapping

from google.protobuf.json_format import MessageToJson
from google.protobuf.message import DecodeError, Message

from appliance.core.cluster.jobs import Phase
from appliance.core.cluster.systems import SystemEvent, SystemEventKind
from appliance.core.errors import ConflictError, UserError
from appliance.core.ids import JobId
from appliance.core.queries.system_event_filter import SystemEventFilter
from appliance.management.access.authorization import asking
from appliance.management.changes.watch import JobWatch
from appliance.management.cluster import cluster_topology as topology
from appliance.management.cluster.system_service import SystemService
from appliance.management.jobs.job_service import JobService, cancelled_by
from appliance.management.logs.log_exports import ExportRequest, LogExports
from appliance.management.rpc.call_context import Context, caller_of
from appliance.management.rpc.client.job_methods import wait_until_ended
from appliance.management.rpc.resource_views import ResourceViews
from appliance.wire.system_events import KINDS, event_message
from appliance.wire.timestamps import moment_of
from protos.csctl import api_pb2 as pb
from protos.csctl import api_pb2_grpc
from protos.csctl.resources_pb2 import Job

_JOBS_PER_MESSAGE = 500


class CsctlServicer(api_pb2_grpc.CsCtlV1Servicer):
    """Answers csctl."""

    def __init__(
        self,
        *,
        jobs: JobService,
        views: ResourceViews,
        watch: JobWatch,
        exports: LogExports,
        systems: SystemService,
        needs_token: bool = False,
    ) -> None:
        self._exports = exports
        self._systems = systems
        self._needs_token = needs_token
        self._jobs = jobs
        self._views = views
        self._watch = watch

    def Get(self, request: pb.GetRequest, context: Context) -> pb.GetResponse:
        """Return resources of a type, or one of them by name."""
        is_table = request.representation == pb.TABLE_REPRESENTATION
        look = self._views.table if is_table else self._views.objects
        found = look(request.type, request.name, request.options, caller_of(context))
        content_type, raw = _write(found, request.accept)
        return pb.GetResponse(type=request.type, content_type=content_type, raw=raw)

    async def ListJobs(
        self, request: pb.ListJobRequest, context: Context
    ) -> AsyncIterator[pb.ListJobResponse]:
        """Return jobs in messages of some hundreds."""
        wanted = request.options.job_options
        options = pb.GetOptions(
            label_filters=wanted.label_filters,
            all_states=wanted.all_states,
            limit=wanted.limit,
            workflow_id=wanted.workflow_id,
            current_user_only=wanted.current_user_only,
            show_pending_status=wanted.show_pending_status,
            sort_by=request.options.sort_by,
            order_by=request.options.order_by,
        )
        jobs = await asyncio.to_thread(self._views.find_jobs, "", options, caller_of(context))
        for start in range(0, max(len(jobs), 1), _JOBS_PER_MESSAGE):
            part = jobs[start : start + _JOBS_PER_MESSAGE]
            message: Message
            if request.representation == pb.TABLE_REPRESENTATION:
                message = self._views.job_table(part)
            else:
                message = self._views.job_list(part, with_pending=wanted.show_pending_status)
            content_type, raw = _write(message, request.accept)
            yield pb.ListJobResponse(content_type=content_type, raw=raw)

    def Patch(self, request: pb.PatchRequest, context: Context) -> pb.PatchResponse:
        """Change a job's labels.

        The body is a job with `meta.labels`: JSON, in which null removes a label, or protobuf, in
        which an empty value does.
        """
        if request.type not in ("job", "jobs"):
            raise UserError(f"A {request.type!r} cannot be patched; only a job's labels can.")
        job = JobId(request.name)
        self._jobs.patch_labels(job, _label_changes(request))
        content_type, raw = _write(self._views.job_object(job), request.accept)
        return pb.PatchResponse(type=request.type, content_type=content_type, raw=raw)

    def ListResourceTypes(
        self, request: pb.ListResourceTypesRequest, context: Context
    ) -> pb.ListResourceTypesResponse:
        """Return the types that `Get` knows."""
        items = [pb.ResourceType(name=name) for name in self._views.types]
        return pb.ListResourceTypesResponse(items=items)

    def GetServerConfig(
        self, request: pb.GetServerConfigRequest, context: Context
    ) -> pb.GetServerConfigResponse:
        """Say whether a token is needed."""
        return pb.GetServerConfigResponse(is_user_auth_enabled=self._needs_token)

    async def CancelJobV2(
        self, request: pb.CancelJobRequest, context: Context
    ) -> pb.CancelJobResponse:
        """Cancel a job, and wait until nothing of it runs any more; one that was, is cancelled."""
        job = JobId(request.job_id)
        if (await asyncio.to_thread(self._jobs.load, job)).phase is Phase.CANCELLED:
            return pb.CancelJobResponse(message=cancel_answer(job, Phase.CANCELLED))
        user = asking()
        why = cancelled_by(user.name, "with csctl")
        await asyncio.to_thread(self._jobs.cancel, job, why)
        phase = await wait_until_ended(self._jobs, self._watch, job)
        return pb.CancelJobResponse(message=cancel_answer(job, phase))

    def UpdateJobPriority(
        self, request: pb.UpdateJobPriorityRequest, context: Context
    ) -> pb.UpdateJobPriorityResponse:
        """Change the priority of a job's whole workflow."""
        value = self._jobs.set_priority(JobId(request.job_id), request.job_priority)
        return pb.UpdateJobPriorityResponse(
            message=f"successfully updated {request.job_id} job priority to p{value // 100}"
        )

    def CreateLogExport(
        self, request: pb.CreateLogExportRequest, context: Context
    ) -> pb.CreateLogExportResponse:
        """Begin to gather a job's logs."""
        if request.export_target_type not in (
            pb.EXPORT_TARGET_TYPE_UNSPECIFIED,
            pb.EXPORT_TARGET_TYPE_CLIENT_LOCAL,
        ):
            raise UserError(
                "Log exports of this appliance are downloaded; it copies none to a volume or NFS.",
                hint="Leave the target type out.",
            )
        export = ExportRequest(
            job=JobId(request.name),
            tasks=tuple(word for word in request.tasks.split(",") if word),
            num_lines=max(0, request.num_lines),
            has_artifacts=request.include_compile_artifacts or request.binaries,
            has_pod_logs=not request.skip_cluster_logs,
        )
        return pb.CreateLogExportResponse(export_id=self._exports.create(export).id)

    def GetLogExport(
        self, request: pb.GetLogExportRequest, context: Context
    ) -> pb.GetLogExportResponse:
        """Say how far the gathering is."""
        export = self._exports.load(request.export_id)
        status = pb.LogExportStatus.Value(f"LOG_EXPORT_STATUS_{export.status.name}")
        return pb.GetLogExportResponse(status=status, status_detail=export.detail)

    def DownloadLogExport(
        self, request: pb.DownloadLogExportRequest, context: Context
    ) -> pb.DownloadLogExportResponse:
        """Return one page of an archive."""
        page = self._exports.page(request.export_id, request.page_token)
        return pb.DownloadLogExportResponse(
            chunk=page.data,
            next_page_token=page.next_token,
            signature=page.signature,
            estimated_remaining_bytes=page.remaining_bytes,
        )

    def GetDebugArtifactStatus(
        self, request: pb.GetDebugArtifactStatusRequest, context: Context
    ) -> pb.GetDebugArtifactStatusResponse:
        """Say until when an export is kept."""
        export = self._exports.load(request.export_id)
        answer = pb.GetDebugArtifactStatusResponse()
        answer.retention_deadline.FromDatetime(dt.datetime.fromisoformat(export.kept_until))
        return answer

    def UpdateDebugArtifactStatus(
        self, request: pb.UpdateDebugArtifactStatusRequest, context: Context
    ) -> pb.UpdateDebugArtifactStatusResponse:
        """Change until when an export is kept."""
        until = moment_of(request.retention_deadline)
        export = self._exports.keep_until(request.export_id, until)
        return pb.UpdateDebugArtifactStatusResponse(
            message=f"Export {export.id} is kept until {export.kept_until}."
        )

    def GetClusterTopology(
        self, request: pb.GetClusterTopologyRequest, context: Context
    ) -> pb.GetClusterTopologyResponse:
        """Return which system hangs on which switch, as far as the cluster's file says."""
        return topology.cluster_topology(self._systems.list())

    def ReportSystemEvent(
        self, request: pb.ReportSystemEventRequest, context: Context
    ) -> pb.ReportSystemEventResponse:
        """Keep word of a stall that somebody saw on a system."""
        if not request.HasField("stall_event"):
            raise UserError(
                "The event says nothing but a note.",
                hint="Changes of state keep themselves.",
            )
        stall = request.stall_event
        event = SystemEvent(
            system=request.system_name,
            at=self._systems.now(),
            kind=SystemEventKind.STALL,
            note=request.note,
            details={
                "job": stall.job_name,
                "session": stall.job_namespace,
                "model": stall.model,
            },
        )
        self._systems.report(event)
        return pb.ReportSystemEventResponse(
            message=f"The stall of system {event.system} was recorded."
        )

    def ListSystemEvents(
        self, request: pb.ListSystemEventsRequest, context: Context
    ) -> pb.ListSystemEventsResponse:
        """Return what happened to systems, oldest first; a host name is the system's name here."""
        names = {name for name in (request.system_name, request.system_hostname) if name}
        if len(names) > 1:
            return pb.ListSystemEventsResponse()
        wanted = SystemEventFilter(
            system=names.pop() if names else "",
            kind=KINDS.get(request.type),
            since=moment_of(request.start_time) if request.HasField("start_time") else None,
            until=moment_of(request.end_time) if request.HasField("end_time") else None,
        )
        return pb.ListSystemEventsResponse(events=map(event_message, self._systems.events(wanted)))

    def GetJobTopology(
        self, request: pb.GetJobTopologyRequest, context: Context
    ) -> pb.GetJobTopologyResponse:
        """Return where a job's pods are."""
        view = self._jobs.view(JobId(request.job_id))
        return topology.job_topology(view.job, view.pods, self._systems.list())

    def ClearWorkerCache(
        self, request: pb.ClearWorkerCacheRequest, context: Context
    ) -> pb.ClearWorkerCacheResponse:
        """There is no cache: input workers read the user's own files."""
        return pb.ClearWorkerCacheResponse(message="Worker caches cleared successfully")


def _write(
    message: Message, accept: pb.SerializationMethod.ValueType
) -> tuple[pb.SerializationMethod.ValueType, bytes]:
    if accept == pb.JSON_METHOD:
        return pb.JSON_METHOD, MessageToJson(message).encode()
    return pb.PROTOBUF_METHOD, message.SerializeToString()


def cancel_answer(job: JobId, phase: Phase) -> str:
    """Return the message for the user who cancelled a job.

    Args:
        phase: Where it stands after some seconds.

    Raises:
        ConflictError: It came to another end before.
    """
    if phase is Phase.CANCELLED:
        return "Job canceled successfully"
    if phase.is_terminal:
        raise ConflictError(f"Job {job} was not canceled: it is {phase.value}, by an end before.")
    return (
        f"Job {job} is being canceled and still {phase.value}: its pods take long to end; "
        f"`csctl get job {job}` tells when they have."
    )


def _label_changes(request: pb.PatchRequest) -> Mapping[str, str | None]:
    try:
        if request.content_type == pb.PROTOBUF_METHOD:
            labels = Job.FromString(request.body).meta.labels
            return {key: value or None for key, value in labels.items()}
        labels = json.loads(request.body)["meta"]["labels"]
        return {str(key): None if value is None else str(value) for key, value in labels.items()}
    except (DecodeError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(
            "The body of the patch is not understood.",
            hint='Send {"meta": {"labels": {"key": "value", "old": null}}}.',
        ) from error
