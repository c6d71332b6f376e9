"""The inner Management service, for the coordinators of jobs."""

import datetime as dt
import math

from appliance.core.clock import Clock
from appliance.core.errors import UserError
from appliance.core.ids import JobId, PodName, Role
from appliance.core.jobs import Phase
from appliance.core.records import EventRecord, PodRecord
from appliance.management.cluster_servicer import Context
from appliance.management.jobs import JobService
from appliance.storage.series import MAX_NAME, Point
from protos.wsc.v1 import management_pb2 as pb
from protos.wsc.v1 import management_pb2_grpc


class InnerServicer(management_pb2_grpc.ManagementServicer):
    """Takes the coordinators' reports."""

    def __init__(self, jobs: JobService, clock: Clock) -> None:
        self._jobs = jobs
        self._clock = clock

    def RegisterCoordinator(
        self, request: pb.RegisterCoordinatorRequest, context: Context
    ) -> pb.RegisterCoordinatorReply:
        """The coordinator listens: the job's door is open."""
        self._jobs.coordinator_registered(JobId(request.job), request.service_address)
        return pb.RegisterCoordinatorReply()

    def ReportJob(self, request: pb.JobReport, context: Context) -> pb.JobReportReply:
        """How the job fares."""
        job = JobId(request.job)
        if request.phase and request.phase not in Phase.__members__:
            raise UserError(f"{request.phase!r} is no phase.")
        self._jobs.reported(
            job,
            phase=request.phase,
            message=request.message,
            pods=[_pod(job, report) for report in request.pods],
            events=[self._event(job, report) for report in request.events],
            points=[_point(report) for report in request.points],
        )
        return pb.JobReportReply()

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
        at=dt.datetime.fromtimestamp(report.at_seconds, dt.UTC),
    )


def _pod(job: JobId, report: pb.PodReport) -> PodRecord:
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
