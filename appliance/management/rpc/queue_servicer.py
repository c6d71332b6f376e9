"""Explanations of the queue and holds of jobs, for csctl: `wsc.v1.Queue`."""

import datetime as dt
from typing import Literal

from google.protobuf.timestamp_pb2 import Timestamp

from appliance.core.cluster.records import DEFAULT_PRIORITY
from appliance.core.errors import UserError
from appliance.core.ids import JobId
from appliance.core.queries.run_line import NAME_LABEL
from appliance.core.queries.usage import UsageLine
from appliance.management.access.authorization import asking
from appliance.management.background.activity_service import ActivityService
from appliance.management.jobs.job_edits import JobEdits
from appliance.management.jobs.job_service import JobService
from appliance.management.jobs.queue_view import QueueEntry, QueueService, StartQuestion
from appliance.management.rpc.call_context import Context
from appliance.wire.requests.submissions import parse_priority
from protos.wsc.v1 import queue_pb2 as pb
from protos.wsc.v1 import queue_pb2_grpc

_MAX_ENTRIES = 1000


class QueueServicer(queue_pb2_grpc.QueueServicer):
    """Tells what the queue thinks; holds jobs back."""

    def __init__(
        self, queue: QueueService, jobs: JobService, edits: JobEdits, activity: ActivityService
    ) -> None:
        self._activity = activity
        self._edits = edits
        self._queue = queue
        self._jobs = jobs

    def ListQueue(self, request: pb.ListQueueRequest, context: Context) -> pb.ListQueueReply:
        """Return waiting jobs in the order in which they are served."""
        page = self._queue.page(
            offset=max(0, request.offset),
            limit=min(request.limit or _MAX_ENTRIES, _MAX_ENTRIES),
            session=request.session,
        )
        return pb.ListQueueReply(
            entries=[self._entry(each) for each in page.entries],
            total=page.total,
            as_of=_timestamp(page.as_of),
        )

    def ExplainJob(self, request: pb.ExplainJobRequest, context: Context) -> pb.QueueEntry:
        """Say why a job waits."""
        return self._entry(self._queue.explain(JobId(request.job)))

    def WouldStart(self, request: pb.WouldStartRequest, context: Context) -> pb.WouldStartReply:
        """Say whether a request would start now, else when."""
        question = StartQuestion(
            num_systems=max(0, request.num_systems),
            user=asking(),
            session=request.session,
            priority=parse_priority(request.priority) if request.priority else DEFAULT_PRIORITY,
            limit_seconds=request.limit_seconds or None,
        )
        answer = self._queue.would_start(question)
        return pb.WouldStartReply(
            is_now=answer.starts_now,
            systems=answer.systems,
            entry=_message(answer.entry) if answer.entry else None,
            refusal=answer.refusal,
        )

    def HoldJob(self, request: pb.HoldJobRequest, context: Context) -> pb.HoldJobReply:
        """Let a waiting job keep its place but not start; one that runs is stopped if wanted."""
        self._edits.hold(JobId(request.job), asking(), stops=request.stops)
        return pb.HoldJobReply()

    def RequeueJob(self, request: pb.RequeueJobRequest, context: Context) -> pb.RequeueJobReply:
        """Stop a detached run, and queue it again."""
        self._edits.requeue(JobId(request.job), asking())
        return pb.RequeueJobReply()

    def ReleaseJob(self, request: pb.ReleaseJobRequest, context: Context) -> pb.ReleaseJobReply:
        """Let a held job start again."""
        self._edits.release(JobId(request.job))
        return pb.ReleaseJobReply()

    def ReportUse(self, request: pb.ReportUseRequest, context: Context) -> pb.ReportUseReply:
        """Return system time used, by group."""
        span = self._activity.last_days(_time(request, "since"), _time(request, "until"))
        lines = self._activity.report(list(request.by), span)
        return pb.ReportUseReply(
            since=_timestamp(span.since), until=_timestamp(span.until), lines=map(_usage, lines)
        )

    def _entry(self, entry: QueueEntry) -> pb.QueueEntry:
        message = _message(entry)
        if (job := self._jobs.find(entry.job)) is not None:
            message.session, message.type = job.session, job.type.value
            message.num_systems, message.priority = job.num_systems, job.priority
            message.user = job.user.name
            message.run_name = job.labels.get(NAME_LABEL, "")
            message.submitted.FromDatetime(job.created_at)
        return message


def _message(entry: QueueEntry) -> pb.QueueEntry:
    return pb.QueueEntry(
        job=entry.job,
        position=entry.position,
        kind=entry.kind.value,
        reason=entry.reason,
        blocking=entry.blocking,
        behind=entry.behind,
        expected_start=_timestamp(entry.expected_start),
        basis=entry.basis,
        is_promised=entry.is_promised,
    )


def _usage(line: UsageLine) -> pb.UsageLine:
    return pb.UsageLine(
        keys=line.keys,
        num_jobs=line.num_jobs,
        num_succeeded=line.num_succeeded,
        num_failed=line.num_failed,
        num_cancelled=line.num_cancelled,
        system_seconds=line.system_seconds,
    )


def _time(request: pb.ReportUseRequest, field: Literal["since", "until"]) -> dt.datetime | None:
    if not request.HasField(field):
        return None
    stamp: Timestamp = getattr(request, field)
    try:
        return stamp.ToDatetime(tzinfo=dt.UTC)
    except (ValueError, OverflowError) as error:
        raise UserError(f"The report's '{field}' is no time: {error}.") from error


def _timestamp(time: dt.datetime | None) -> Timestamp | None:
    if time is None:
        return None
    stamp = Timestamp()
    stamp.FromDatetime(time)
    return stamp
