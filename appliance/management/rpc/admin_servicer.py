"""Administration for csctl: sessions, systems, maintenance and users.

`CsAdmV1` is the client's contract; `wsc.v1.Maintenance` adds what that lacks. Systems of this
appliance are simulated, so a maintenance workflow has nothing to measure on them: it reserves them
for its time, as a real one would, and says so.
"""

import datetime as dt
from collections.abc import Sequence

from google.protobuf.timestamp_pb2 import Timestamp

from appliance.core.clock import Clock
from appliance.core.cluster.sessions import SessionRecord, SessionSpec
from appliance.core.cluster.systems import MaintenanceWindow, SystemState
from appliance.core.errors import NotFoundError, UserError
from appliance.management.access.authorization import Access, asking
from appliance.management.cluster.session_service import SessionService, SessionView
from appliance.management.cluster.system_service import SystemService
from appliance.management.rpc.call_context import Context
from appliance.wire.session_messages import is_dry_run, session_changes, session_message
from appliance.wire.timestamps import moment_of
from protos.csadm import csadm_pb2 as pb
from protos.csadm import csadm_pb2_grpc
from protos.wsc.v1 import maintenance_pb2, maintenance_pb2_grpc

_DEFAULT_SECONDS = 600.0
"""Length of a maintenance whose request names none: that of a memory self-test, roughly."""

_TYPE_PREFIX = "SYSTEM_MAINTENANCE_TYPE_"


class AdminServicer(csadm_pb2_grpc.CsAdmV1Servicer):
    """Sessions, systems, maintenance and users.

    Args:
        access: All users.
        clock: Tells which maintenance is over.
    """

    def __init__(
        self, *, sessions: SessionService, systems: SystemService, access: Access, clock: Clock
    ) -> None:
        self._sessions, self._systems = sessions, systems
        self._access, self._clock = access, clock

    def CreateSession(self, request: pb.CreateSessionRequest, context: Context) -> pb.Session:
        """Create a session, or only check that it could be."""
        changes = session_changes(
            request.spec,
            request.properties,
            request.user_label_operations,
            before=SessionSpec(),
        )
        dry_run = is_dry_run(request.spec)
        record = self._sessions.create(
            request.name, SessionSpec(**changes), by=_who(), dry_run=dry_run
        )
        return session_message(record)

    def UpdateSession(self, request: pb.UpdateSessionRequest, context: Context) -> pb.Session:
        """Change a session, or only check that it could be."""
        before = self._sessions.load(request.name)
        changes = session_changes(
            request.spec,
            request.properties,
            request.user_label_operations,
            before=before.spec,
        )
        dry_run = is_dry_run(request.spec)
        record = self._sessions.update(
            request.name, changes, by=_who(), version=before.version, dry_run=dry_run
        )
        return session_message(record) if dry_run else self._session(record)

    def GetSession(self, request: pb.GetSessionRequest, context: Context) -> pb.Session:
        """Return a session with what it holds."""
        return _view_message(self._sessions.view(request.name))

    def ListSession(
        self, request: pb.ListSessionRequest, context: Context
    ) -> pb.ListSessionResponse:
        """Return all sessions; none is a spare pool, so none is redundant."""
        if request.redundant:
            return pb.ListSessionResponse()
        return pb.ListSessionResponse(items=map(_view_message, self._sessions.views()))

    def DeleteSession(
        self, request: pb.DeleteSessionRequest, context: Context
    ) -> pb.DeleteSessionResponse:
        """Delete a session that has no unfinished job."""
        self._sessions.delete(request.name)
        return pb.DeleteSessionResponse(message=f"Session {request.name} is deleted.")

    def SessionPausePendingJobs(
        self, request: pb.SessionPausePendingJobsRequest, context: Context
    ) -> pb.SessionPausePendingJobsResponse:
        """Let no waiting job of a session start."""
        self._sessions.pause(request.name, by=_who())
        return pb.SessionPausePendingJobsResponse(
            message=f"Waiting jobs of session {request.name} do not start any more."
        )

    def SessionUnpausePendingJobs(
        self, request: pb.SessionUnpausePendingJobsRequest, context: Context
    ) -> pb.SessionUnpausePendingJobsResponse:
        """Let a session's waiting jobs start again."""
        self._sessions.unpause(request.name, by=_who())
        return pb.SessionUnpausePendingJobsResponse(
            message=f"Waiting jobs of session {request.name} may start again."
        )

    def UpdateSystemStatus(
        self, request: pb.UpdateSystemStatusRequest, context: Context
    ) -> pb.UpdateSystemStatusResponse:
        """Mark a system healthy or not; one bad port makes it unhealthy."""
        notes = f"port {request.port}: {request.message}" if request.port else request.message
        system = self._systems.set_health(
            request.system_name,
            is_healthy=request.healthy,
            notes=notes,
            by=_who(),
            port=request.port,
        )
        health = "healthy" if system.is_healthy else "not healthy"
        return pb.UpdateSystemStatusResponse(message=f"System {system.name} is {health}.")

    def CreateSystemMaintenance(
        self, request: pb.CreateSystemMaintenanceRequest, context: Context
    ) -> pb.CreateSystemMaintenanceResponse:
        """Take systems away for a maintenance workflow, or only check that they could be."""
        if request.workflow_type == pb.SYSTEM_MAINTENANCE_TYPE_UNSPECIFIED:
            raise UserError(
                "The maintenance names no workflow.", hint="Give MEM_BIST, VDDC or WAFER_DIAG."
            )
        if request.workflow_type not in pb.SystemMaintenanceType.values():
            raise UserError(f"{request.workflow_type} is no type of maintenance.")
        kind = pb.SystemMaintenanceType.Name(request.workflow_type).removeprefix(_TYPE_PREFIX)
        windows = self._systems.plan_maintenance(
            list(request.systems),
            starts_at=None,
            seconds=request.wafer_diag.duration or _DEFAULT_SECONDS,
            notes=f"{kind} (simulated: nothing is measured)",
            dry_run=request.dryrun,
        )
        return pb.CreateSystemMaintenanceResponse(jobs=[self._job(each) for each in windows])

    def GetSystemMaintenance(
        self, request: pb.GetSystemMaintenanceRequest, context: Context
    ) -> pb.GetSystemMaintenanceResponse:
        """Return the jobs of one maintenance workflow."""
        found = [
            each for each in self._systems.windows(with_past=True) if each.id == request.workflow_id
        ]
        if not found:
            raise NotFoundError(f"There is no maintenance {request.workflow_id!r}.")
        return pb.GetSystemMaintenanceResponse(jobs=[self._job(each) for each in found])

    def ListSystemMaintenance(
        self, request: pb.ListSystemMaintenanceRequest, context: Context
    ) -> pb.ListSystemMaintenanceResponse:
        """Return maintenance workflows: those to come and running, or all."""
        workflows: dict[str, list[MaintenanceWindow]] = {}
        for window in self._systems.windows(with_past=request.all_states):
            workflows.setdefault(window.id, []).append(window)
        return pb.ListSystemMaintenanceResponse(
            workflows=[
                pb.SystemMaintenanceWorkflow(
                    workflow_id=name,
                    workflow_type=_type(windows[0]),
                    jobs=[self._job(each) for each in windows],
                    create_time=_timestamp(windows[0].starts_at),
                )
                for name, windows in workflows.items()
            ]
        )

    def UserBlock(self, request: pb.UserBlockRequest, context: Context) -> pb.UserResponse:
        """Block a user."""
        account = self._access.block(request.user_id)
        return pb.UserResponse(message=f"User {account.name} (uid {account.uid}) is blocked.")

    def UserUnblock(self, request: pb.UserUnblockRequest, context: Context) -> pb.UserResponse:
        """Lift a block."""
        account = self._access.unblock(request.user_id)
        return pb.UserResponse(message=f"User {account.name} (uid {account.uid}) is not blocked.")

    def UserListBlocked(
        self, request: pb.UserListBlockedRequest, context: Context
    ) -> pb.UserListBlockedResponse:
        """Return who is blocked."""
        return pb.UserListBlockedResponse(
            users=[
                pb.BlockedUser(user_id=account.uid, blocked_since=account.blocked_at.isoformat())
                for account in self._access.blocked()
                if account.blocked_at is not None and account.uid >= 0
            ]
        )

    def _session(self, record: SessionRecord) -> pb.Session:
        return _view_message(self._sessions.view(record.name))

    def _job(self, window: MaintenanceWindow) -> pb.SystemMaintenanceJob:
        now = self._clock.now()
        if now < window.starts_at:
            status = pb.JOB_STATUS_SCHEDULED
        else:
            status = pb.JOB_STATUS_IN_PROGRESS if now < window.ends_at else pb.JOB_STATUS_SUCCEEDED
        return pb.SystemMaintenanceJob(
            job_id=f"{window.id}-{window.system}",
            workflow_type=_type(window),
            status=status,
            systems=[window.system],
            notes=window.notes,
            execution_time=_timestamp(window.starts_at),
            completion_time=_timestamp(window.ends_at),
        )


class MaintenanceServicer(maintenance_pb2_grpc.MaintenanceServicer):
    """Systems that drain, and maintenance that is planned ahead or ended early."""

    def __init__(self, systems: SystemService) -> None:
        self._systems = systems

    def PlanMaintenance(
        self, request: maintenance_pb2.PlanMaintenanceRequest, context: Context
    ) -> maintenance_pb2.PlanMaintenanceReply:
        """Take systems away for a time."""
        windows = self._systems.plan_maintenance(
            list(request.systems),
            starts_at=moment_of(request.starts_at) if request.HasField("starts_at") else None,
            seconds=request.seconds,
            notes=request.notes,
            dry_run=request.is_dry_run,
        )
        return maintenance_pb2.PlanMaintenanceReply(
            id=windows[0].id,
            starts_at=_timestamp(windows[0].starts_at),
            ends_at=_timestamp(windows[0].ends_at),
        )

    def EndMaintenance(
        self, request: maintenance_pb2.EndMaintenanceRequest, context: Context
    ) -> maintenance_pb2.EndMaintenanceReply:
        """Give systems back."""
        count = self._systems.end_maintenance(request.id)
        return maintenance_pb2.EndMaintenanceReply(num_systems=count)

    def SetSystemState(
        self, request: maintenance_pb2.SetSystemStateRequest, context: Context
    ) -> maintenance_pb2.SetSystemStateReply:
        """Put a system up, drain it, or take it away."""
        known: Sequence[str] = [state.value for state in SystemState]
        if request.state not in known:
            raise UserError(
                f"A system cannot be {request.state!r}.", hint=f"States are {', '.join(known)}."
            )
        system = self._systems.set_state(
            request.system, SystemState(request.state), notes=request.notes, by=_who()
        )
        return maintenance_pb2.SetSystemStateReply(state=system.state.value)


def _view_message(view: SessionView) -> pb.Session:
    return session_message(
        view.session,
        systems=view.systems,
        node_groups=view.node_groups,
        num_running=view.num_running,
        num_queued=view.num_queued,
        idle_seconds=view.idle_seconds,
        history=view.history,
    )


def _who() -> str:
    user = asking()
    return user.name or (str(user.uid) if user.uid >= 0 else "")


def _type(window: MaintenanceWindow) -> pb.SystemMaintenanceType.ValueType:
    word = window.notes.split(" ", 1)[0]
    known = pb.SystemMaintenanceType.keys()
    name = f"{_TYPE_PREFIX}{word}"
    return pb.SystemMaintenanceType.Value(name if name in known else f"{_TYPE_PREFIX}UNSPECIFIED")


def _timestamp(time: dt.datetime) -> Timestamp:
    stamp = Timestamp()
    stamp.FromDatetime(time)
    return stamp
