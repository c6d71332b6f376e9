"""The services of detached runs and logs: `wsc.v1.Drivers`, `DriverControl` and `Logs`."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from appliance.core.cluster.drivers import DriverSpec, FailureCategory, RestartPolicy
from appliance.core.cluster.records import DEFAULT_PRIORITY
from appliance.core.errors import UserError
from appliance.core.ids import JobId
from appliance.management.access.authorization import asking
from appliance.management.changes.watch import JobWatch, wait_for_change
from appliance.management.jobs.driver_restarts import DriverRestarts
from appliance.management.jobs.driver_service import DriverService, DriverSubmission
from appliance.management.logs.job_logs import LogService
from appliance.management.logs.log_files import kept_bytes, read_log, tail_offset
from appliance.management.rpc.call_context import Context
from appliance.management.rpc.job_keys import KeyOf, check_key
from appliance.wire.requests.submissions import parse_priority
from protos.wsc.v1 import drivers_pb2 as pb
from protos.wsc.v1 import drivers_pb2_grpc, logs_pb2, logs_pb2_grpc

_CHUNK_BYTES = 1 << 16
_CATEGORIES = {category.value: category for category in FailureCategory}
_LOOK_SECONDS = 0.2
"""How soon a follower sees what a pod has printed."""


class DriverServicer(drivers_pb2_grpc.DriversServicer):
    """Accepts detached runs."""

    def __init__(self, drivers: DriverService) -> None:
        self._drivers = drivers

    async def SubmitDriver(
        self, request: pb.SubmitDriverRequest, context: Context
    ) -> pb.SubmitDriverReply:
        """Queue a driver."""
        spec = DriverSpec(
            argv=tuple(request.argv),
            work_dir=request.work_dir,
            environment=dict(request.environment),
            num_systems=request.num_systems,
            restart=_policy(request.restart),
            time_limit_seconds=request.time_limit_seconds,
            commit=request.git_commit,
            is_dirty=request.is_dirty if request.HasField("is_dirty") else None,
        )
        submission = DriverSubmission(
            spec=spec,
            session=request.session,
            user=asking(),
            priority=parse_priority(request.priority) if request.priority else DEFAULT_PRIORITY,
            labels=dict(request.labels),
            after=tuple(request.after),
            array_limit=request.array_limit,
        )
        if request.array:
            array, jobs = await self._drivers.submit_array(submission, request.array)
            return pb.SubmitDriverReply(
                job=jobs[0].id,
                workflow=jobs[0].workflow,
                array=array,
                jobs=[job.id for job in jobs],
            )
        job = await self._drivers.submit(submission)
        return pb.SubmitDriverReply(job=job.id, workflow=job.workflow)


class DriverControlServicer(drivers_pb2_grpc.DriverControlServicer):
    """Answers driver pods.

    Args:
        restarts: Decides whether scripts begin again.
        key_of: See `KeyOf`.
    """

    def __init__(self, restarts: DriverRestarts, *, key_of: KeyOf) -> None:
        self._restarts, self._key_of = restarts, key_of

    def DriverStarted(
        self, request: pb.DriverStartedRequest, context: Context
    ) -> pb.DriverStartedReply:
        """Return how often the script was restarted before."""
        job = JobId(request.job)
        check_key(self._key_of, job, context)
        return pb.DriverStartedReply(restart_count=self._restarts.count(job))

    def DriverEnded(self, request: pb.DriverEndedRequest, context: Context) -> pb.DriverEndedReply:
        """Return whether the script is restarted."""
        job = JobId(request.job)
        check_key(self._key_of, job, context)
        restart, count = self._restarts.ended(job, request.exit_code, request.last_words)
        return pb.DriverEndedReply(
            is_restart=restart.is_wanted, restart_count=count, reason=restart.reason
        )


class LogServicer(logs_pb2_grpc.LogsServicer):
    """Streams what pods print."""

    def __init__(self, logs: LogService, watch: JobWatch) -> None:
        self._logs = logs
        self._watch = watch

    def ListLogs(
        self, request: logs_pb2.ListLogsRequest, context: Context
    ) -> logs_pb2.ListLogsReply:
        """Return the logs that a job has."""
        found = self._logs.logs(JobId(request.job))
        files = [logs_pb2.LogFile(pod=each.pod, num_bytes=kept_bytes(each.path)) for each in found]
        return logs_pb2.ListLogsReply(logs=files)

    async def StreamLog(
        self, request: logs_pb2.StreamLogRequest, context: Context
    ) -> AsyncIterator[logs_pb2.LogChunk]:
        """Send a log, and what is added to it until the job has ended if that is wanted."""
        job = JobId(request.job)
        log = await asyncio.to_thread(self._logs.find, job, request.pod)
        offset = await self._logs.read(_first_offset, log.path, request)
        with self._watch.follow(job) as changed:
            while True:
                changed.clear()
                # The phase comes first: what was printed before the end is then read after it.
                record = await asyncio.to_thread(self._logs.load_job, job)
                while True:
                    offset, data = await self._logs.read(read_log, log.path, offset, _CHUNK_BYTES)
                    if not data:
                        break
                    yield logs_pb2.LogChunk(data=data, offset=offset)
                    offset += len(data)
                if not request.is_followed or record.phase.is_terminal:
                    return
                await wait_for_change(changed, _LOOK_SECONDS)


def _policy(policy: pb.RestartPolicy) -> RestartPolicy:
    for name in policy.on:
        if name not in _CATEGORIES:
            raise UserError(
                f"There is no category of failure {name!r}.", hint="Give `pod` or `node`."
            )
    return RestartPolicy(on=tuple(_CATEGORIES[name] for name in policy.on), limit=policy.limit)


def _first_offset(path: Path, request: logs_pb2.StreamLogRequest) -> int:
    if request.HasField("offset"):
        return max(0, request.offset)
    if request.tail_lines < 0:
        return 0
    return tail_offset(path, request.tail_lines)
