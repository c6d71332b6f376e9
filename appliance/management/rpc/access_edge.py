"""Which rule holds for which gRPC method, and the gate that asks `Access` before each call.

A method that is not in the table is for administrators of the cluster; a test sees to it that every
method that is served is in the table.

The client's own streams (heartbeats, ingress) carry no metadata and so no token. They are let in by
the id of the job or workflow that they name, and say nothing but how far that is.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from appliance.core.cluster.access import Action, Principal, Target
from appliance.core.ids import JobId, WorkflowId
from appliance.management.access.authorization import Access, Change, Keep, job_target
from appliance.management.store.state import State
from appliance.wire.caller import Caller
from appliance.wire.submissions import parse_priority, requested_priority

DOOR = "grpc"

# `Any`: each method has a message type of its own, and the table is by name.
_Message = Any
_TargetOf = Callable[[_Message, State], Target]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What a method asks for.

    Attributes:
        action: The action.
        target: Finds the object that a request is about.
        is_public: Whether it is answered before the caller is known.
        is_anonymous: Whether it is answered to a caller who gives no name.
    """

    action: Action
    target: _TargetOf
    is_public: bool = False
    is_anonymous: bool = False


def _cluster(_: _Message, __: State) -> Target:
    return Target(kind="cluster")


def _new_job(request: _Message, _: State) -> Target:
    return Target(kind="job", priority=requested_priority(request.debug_args))


def _new_driver(request: _Message, _: State) -> Target:
    priority = parse_priority(request.priority) if request.priority else None
    return Target(kind="job", priority=priority)


def _new(kind: str) -> _TargetOf:
    return lambda _, __: Target(kind=kind)


def _job(field: str) -> _TargetOf:
    def find(request: _Message, state: State) -> Target:
        return job_target(state.jobs.load(JobId(getattr(request, field))))

    return find


def _job_if_any(request: _Message, state: State) -> Target:
    """Return the job; a client whose job was refused at once ends one without a name."""
    if not request.job_id:
        return Target(kind="job")
    return _job("job_id")(request, state)


def _job_with_priority(request: _Message, state: State) -> Target:
    job = state.jobs.load(JobId(request.job_id))
    return job_target(job, priority=parse_priority(request.job_priority))


def _workflow(request: _Message, state: State) -> Target:
    found = state.workflows.find(WorkflowId(request.workflow_id))
    owner = found.user if found else None
    session = found.session if found else ""
    return Target(kind="workflow", name=request.workflow_id, owner=owner, session=session)


def _session(field: str) -> _TargetOf:
    def find(request: _Message, _: State) -> Target:
        name = getattr(request, field)
        return Target(kind="session", name=name, session=name)

    return find


def _named(kind: str, field: str) -> _TargetOf:
    return lambda request, _: Target(kind=kind, name=str(getattr(request, field)))


_PUBLIC = Rule(action=Action.READ, target=_cluster, is_public=True)
_STREAM = Rule(action=Action.READ, target=_cluster, is_anonymous=True)
_READ = Rule(action=Action.READ, target=_cluster)
_SUBMIT = Rule(action=Action.SUBMIT, target=_new_job)
_END = Rule(action=Action.END_JOB, target=_job_if_any)
_EDIT = Rule(action=Action.EDIT_JOB, target=_job("job_id"))
_WORKFLOW = Rule(action=Action.EDIT_JOB, target=_workflow)
_LOGS = Rule(action=Action.READ_LOGS, target=_job("name"))
_SESSIONS = Rule(action=Action.MANAGE_SESSIONS, target=_session("name"))
_PAUSE = Rule(action=Action.PAUSE_SESSION, target=_session("name"))
_SYSTEMS = Rule(action=Action.MANAGE_SYSTEMS, target=_new("system"))
_USERS = Rule(action=Action.MANAGE_USERS, target=_named("user", "user_id"))

_CLUSTER_MANAGEMENT: Mapping[str, Rule] = {
    "GetServerConfig": _PUBLIC,
    "GetServerVersions": _READ,
    "IsMessageBrokerAvailable": _READ,
    "HasMultiMgmtNodes": _READ,
    "CheckStorageConnectivity": _READ,
    "InitWorkflow": Rule(action=Action.SUBMIT, target=_new("workflow")),
    "ReleaseWorkflowResources": _WORKFLOW,
    "ReserveJobResources": _EDIT,
    "ReleaseJobResources": _EDIT,
    "GetReservationStatus": _READ,
    "InitImageBuildJob": _READ,
    "GetImageBuildJob": _READ,
    "DeleteImageBuildJob": _READ,
    "InitCompileJob": _SUBMIT,
    "InitExecuteJob": _SUBMIT,
    "FinalizeCompileJob": _END,
    "PollIngress": _STREAM,
    "PollIngressV2": _STREAM,
    "HeartbeatV2": _STREAM,
    "SendClientHeartbeat": _READ,
    "GetJob": _READ,
    "GetJobEvents": _READ,
    "GetJobInitStatus": _READ,
    "GetJobMeta": _READ,
    "CancelJob": _END,
    "CancelJobV2": _END,
    "DeleteJob": _END,
    "ReportMetrics": _READ,
}

_CSCTL: Mapping[str, Rule] = {
    "Get": _READ,
    "ListJobs": _READ,
    "Patch": Rule(action=Action.EDIT_JOB, target=_job("name")),
    "ListResourceTypes": _READ,
    "GetServerConfig": _PUBLIC,
    "CancelJobV2": _END,
    "UpdateJobPriority": Rule(action=Action.PRIORITISE_JOB, target=_job_with_priority),
    "ClearWorkerCache": Rule(action=Action.SUBMIT, target=_new("worker-cache")),
    "GetClusterTopology": _READ,
    "GetJobTopology": _READ,
    "CreateLogExport": _LOGS,
    "GetLogExport": _READ,
    "DownloadLogExport": _READ,
    "GetDebugArtifactStatus": _READ,
    "UpdateDebugArtifactStatus": Rule(
        action=Action.MANAGE_SYSTEMS, target=_named("export", "export_id")
    ),
    "ReportSystemEvent": Rule(action=Action.MANAGE_SYSTEMS, target=_named("system", "system_name")),
    "ListSystemEvents": _READ,
}

_CSADM: Mapping[str, Rule] = {
    "CreateSession": _SESSIONS,
    "UpdateSession": _SESSIONS,
    "DeleteSession": _SESSIONS,
    "GetSession": _READ,
    "ListSession": _READ,
    "SessionPausePendingJobs": _PAUSE,
    "SessionUnpausePendingJobs": _PAUSE,
    "UpdateSystemStatus": _SYSTEMS,
    "CreateSystemMaintenance": _SYSTEMS,
    "GetSystemMaintenance": _READ,
    "ListSystemMaintenance": _READ,
    "UserBlock": _USERS,
    "UserUnblock": _USERS,
    "UserListBlocked": Rule(action=Action.MANAGE_USERS, target=_new("user")),
}

_DRIVERS: Mapping[str, Rule] = {
    "SubmitDriver": Rule(action=Action.SUBMIT, target=_new_driver),
}

_JOB_LOGS = Rule(action=Action.READ_LOGS, target=_job("job"))
_LOG_STREAMS: Mapping[str, Rule] = {"ListLogs": _JOB_LOGS, "StreamLog": _JOB_LOGS}

RULES: Mapping[str, Rule] = {
    f"/{service}/{method}": rule
    for service, rules in {
        "cluster.cluster_mgmt_pb.ClusterManagement": _CLUSTER_MANAGEMENT,
        "cluster.cluster_mgmt_pb.csctl.CsCtlV1": _CSCTL,
        "cluster.cluster_mgmt_pb.csadm.CsAdmV1": _CSADM,
        "wsc.v1.Drivers": _DRIVERS,
        "wsc.v1.Queue": {
            "ListQueue": _READ,
            "ExplainJob": _READ,
            "WouldStart": _READ,
            "HoldJob": Rule(action=Action.EDIT_JOB, target=_job("job")),
            "ReleaseJob": Rule(action=Action.RELEASE_JOB, target=_job("job")),
        },
        "wsc.v1.Maintenance": {
            "PlanMaintenance": _SYSTEMS,
            "EndMaintenance": _SYSTEMS,
            "SetSystemState": _SYSTEMS,
        },
        "wsc.v1.Logs": _LOG_STREAMS,
        "wsc.v1.Events": {"ListJobEvents": _READ},
    }.items()
    for method, rule in rules.items()
}

_UNKNOWN = Rule(action=Action.MANAGE_SYSTEMS, target=_cluster)


class Gate:
    """Asks `Access` before each call of a gRPC server.

    Args:
        access: Knows callers and rules.
        state: Where the objects are that requests are about.
        keep: Writes the records of changes, many at a time.
    """

    def __init__(self, access: Access, state: State, keep: Keep) -> None:
        self._access = access
        self._state = state
        self.keep = keep

    def admit_at_once(self, method: str, caller: Caller, request: _Message) -> Change | None:
        """Do the same as `admit` without waiting; raises `WouldWaitError` where it would wait."""
        with self._state.database.without_waiting():
            return self.admit(method, caller, request)

    def admit(self, method: str, caller: Caller, request: _Message) -> Change | None:
        """Let a call pass; may wait for the database.

        Args:
            method: Full name of the method.
            caller: What the call's metadata say.
            request: The message; for a stream of messages, whatever stands for it.

        Returns:
            The change that the call makes, to be told of its end; None if it changes nothing.

        Raises:
            UnauthenticatedError: The call does not prove whose it is.
            ForbiddenError: The caller may not do this.
        """
        rule = RULES.get(method, _UNKNOWN)
        if rule.is_public or (rule.is_anonymous and not caller.is_named):
            return None
        principal = self._access.identify(caller.user, caller.token)
        if not rule.action.is_change:
            self._look(principal, rule, request)
            return None
        target = rule.target(request, self._state)
        detail = method.rpartition("/")[2]
        return self._access.begin(principal, rule.action, target, door=DOOR, detail=detail)

    def _look(self, principal: Principal, rule: Rule, request: _Message) -> None:
        if rule.action is not Action.READ:
            self._access.allow(principal, rule.action, rule.target(request, self._state))


def name_of(response: _Message) -> str:
    """Return the name that a request's new object got; empty if the response tells none."""
    for field in ("job_id", "workflow_id", "job"):
        if name := getattr(response, field, ""):
            return str(name)
    return ""
