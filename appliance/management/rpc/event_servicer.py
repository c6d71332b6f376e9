"""The events and sessions of jobs: `wsc.v1.Events`."""

import datetime as dt

from google.protobuf.timestamp_pb2 import Timestamp

from appliance.core.cluster.records import EventRecord
from appliance.core.cluster.run import RunSession
from appliance.core.ids import JobId
from appliance.management.jobs.job_service import JobService
from appliance.management.rpc.call_context import Context
from appliance.wire.job_times import masked_weight_numbers, session_readings
from protos.appliance.appliance_service_pb2 import FinalizeResponse
from protos.wsc.v1 import events_pb2 as pb
from protos.wsc.v1 import events_pb2_grpc


class EventServicer(events_pb2_grpc.EventsServicer):
    """Serves the events and sessions of jobs."""

    def __init__(self, jobs: JobService) -> None:
        self._jobs = jobs

    def ListJobEvents(
        self, request: pb.ListJobEventsRequest, context: Context
    ) -> pb.ListJobEventsReply:
        """Return all events of a job, oldest first."""
        job = self._jobs.load(JobId(request.job))
        events = [_event(each) for each in self._jobs.events(job.id)]
        return pb.ListJobEventsReply(events=events)

    def ListRunSessions(
        self, request: pb.ListRunSessionsRequest, context: Context
    ) -> pb.ListRunSessionsReply:
        """Return the sessions that a job has run, or one of them."""
        job = self._jobs.load(JobId(request.job))
        sessions = self._jobs.run_sessions
        if request.session:
            return pb.ListRunSessionsReply(
                sessions=[_run_session(sessions.one(job.id, request.session))]
            )
        return pb.ListRunSessionsReply(sessions=map(_run_session, sessions.of_job(job.id)))

    def GetSessionProfile(
        self, request: pb.GetSessionProfileRequest, context: Context
    ) -> FinalizeResponse:
        """Return the profile of one step of a session's program."""
        return self._jobs.run_sessions.profile(JobId(request.job), request.session or None)


def _event(record: EventRecord) -> pb.JobEvent:
    return pb.JobEvent(
        time=_timestamp(record.at),
        reason=record.reason,
        message=record.message,
        subject=record.subject,
        is_warning=record.is_warning,
        phase=record.phase.value if record.phase else "",
    )


def _run_session(session: RunSession) -> pb.RunSession:
    return pb.RunSession(
        session=session.number,
        is_training=session.is_training,
        num_steps=session.num_steps,
        completed_steps=session.completed_steps,
        step_seconds=session.step_seconds,
        started=_timestamp(session.started_at),
        ended=_timestamp(session.ended_at) if session.ended_at else None,
        readings={
            **session_readings(session.pods),
            **masked_weight_numbers(session.masked_weights),
        },
        masked_weights=" ".join(session.masked_weights.in_words())
        if session.masked_weights
        else "",
    )


def _timestamp(at: dt.datetime) -> Timestamp:
    time = Timestamp()
    time.FromDatetime(at)
    return time
