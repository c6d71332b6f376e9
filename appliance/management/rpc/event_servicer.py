"""The events of jobs: `wsc.v1.Events`."""

from google.protobuf.timestamp_pb2 import Timestamp

from appliance.core.cluster.records import EventRecord
from appliance.core.ids import JobId
from appliance.management.jobs.job_service import JobService
from appliance.management.rpc.call_context import Context
from protos.wsc.v1 import events_pb2 as pb
from protos.wsc.v1 import events_pb2_grpc


class EventServicer(events_pb2_grpc.EventsServicer):
    """Serves the events of jobs."""

    def __init__(self, jobs: JobService) -> None:
        self._jobs = jobs

    def ListJobEvents(
        self, request: pb.ListJobEventsRequest, context: Context
    ) -> pb.ListJobEventsReply:
        """Return all events of a job, oldest first."""
        job = self._jobs.load(JobId(request.job))
        events = [_event(each) for each in self._jobs.events(job.id)]
        return pb.ListJobEventsReply(events=events)


def _event(record: EventRecord) -> pb.JobEvent:
    time = Timestamp()
    time.FromDatetime(record.at)
    return pb.JobEvent(
        time=time,
        reason=record.reason,
        message=record.message,
        subject=record.subject,
        is_warning=record.is_warning,
        phase=record.phase.value if record.phase else "",
    )
