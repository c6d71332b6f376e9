"""Runs: `wsc.v1.Runs`."""

import datetime as dt

from google.protobuf.timestamp_pb2 import Timestamp

from appliance.core.cluster.records import User
from appliance.core.errors import InternalError
from appliance.core.queries.job_filter import JobFilter, JobLine
from appliance.core.queries.label_selector import equal_to, parse_selector
from appliance.core.queries.run_line import RunLine
from appliance.management.access.authorization import asking, asking_principal
from appliance.management.cluster.session_service import SessionService
from appliance.management.jobs.run_service import RunProgressLine, RunService, may_read
from appliance.management.rpc.call_context import Context
from protos.wsc.v1 import runs_pb2 as pb
from protos.wsc.v1 import runs_pb2_grpc


class RunServicer(runs_pb2_grpc.RunsServicer):
    """Serves runs."""

    def __init__(self, runs: RunService, sessions: SessionService) -> None:
        self._runs = runs
        self._sessions = sessions

    def ListRuns(self, request: pb.ListRunsRequest, context: Context) -> pb.ListRunsReply:
        """Return runs, newest first."""
        if request.session:
            self._sessions.load(request.session)
        wanted = JobFilter(
            session=request.session,
            uid=asking().uid if request.current_user_only else None,
            labels=(*equal_to(request.labels), *parse_selector(request.selectors)),
            with_finished=request.with_finished,
            limit=max(0, request.limit),
        )
        runs = self._runs.page(wanted)
        progress = self._runs.progress(runs)
        return pb.ListRunsReply(runs=[self._run(run, progress.get(run.id)) for run in runs])

    def GetRun(self, request: pb.GetRunRequest, context: Context) -> pb.Run:
        """Return the run that an id or a name means."""
        asker: User = asking()
        run = self._runs.resolve(
            request.name,
            session=request.session,
            session_of_names=request.session_of_names,
            asker=asker,
        )
        return self._run(run, self._runs.progress([run]).get(run.id))

    def _run(self, run: RunLine, progress: RunProgressLine | None) -> pb.Run:
        far = progress or RunProgressLine()
        message = pb.Run(
            run_id=run.id,
            name=run.name,
            session=run.first.session,
            user=run.user.name,
            uid=run.user.uid,
            labels=run.first.labels,
            kind=run.kind.value,
            array=run.array,
            index=run.index,
            phase=run.phase.value,
            message=run.message,
            client_release=run.client_release,
            jobs=map(_job, run.jobs),
            log_job=run.log_job,
            unfinished=run.unfinished,
            step=far.step,
            num_steps=far.num_steps,
            last_values=far.last_values,
            created=_timestamp(run.first.created_at),
            started=_timestamp(run.started_at),
            ended=_timestamp(run.ended_at),
            dashboard=self._runs.dashboard(run.id),
        )
        if _may_read(run):
            message.argv[:] = run.argv
            message.script = run.script
            message.work_dir = run.work_dir
            message.environment_digest = run.environment_digest
            message.git_commit = run.commit
            if run.is_dirty is not None:
                message.is_dirty = run.is_dirty
        return message


def _may_read(run: RunLine) -> bool:
    principal = asking_principal()
    if principal is None:
        raise InternalError("Runs are asked for by nobody.")
    return may_read(principal, run)


def _job(job: JobLine) -> pb.RunJob:
    return pb.RunJob(
        job=job.id,
        type=job.type.value,
        phase=job.phase.value,
        message=job.message,
        systems=job.systems,
        created=_timestamp(job.created_at),
        started=_timestamp(job.started_at),
        ended=_timestamp(job.ended_at),
    )


def _timestamp(at: dt.datetime | None) -> Timestamp | None:
    if at is None:
        return None
    time = Timestamp()
    time.FromDatetime(at)
    return time
