"""Which rule applies to which gRPC method of management's port for clients.

A method that is not listed is refused for every caller; a test checks that every served method is
listed, and that docs/entry-points.md agrees.
"""

from collections.abc import Mapping
from dataclasses import replace

from appliance.core.access_rules import rules
from appliance.core.access_rules.model import Rule

_CLUSTER_MANAGEMENT: Mapping[str, Rule] = {
    "GetServerConfig": rules.PUBLIC,
    "GetServerVersions": rules.READ,
    "IsMessageBrokerAvailable": rules.READ,
    "HasMultiMgmtNodes": rules.READ,
    "CheckStorageConnectivity": rules.READ,
    "InitWorkflow": rules.NEW_WORKFLOW,
    "ReleaseWorkflowResources": rules.EDIT_WORKFLOW,
    "ReserveJobResources": rules.EDIT_WORKFLOW_OF_JOB,
    "ReleaseJobResources": rules.EDIT_WORKFLOW_OF_JOB,
    "GetReservationStatus": rules.READ,
    "InitImageBuildJob": rules.READ,
    "GetImageBuildJob": rules.READ,
    "DeleteImageBuildJob": rules.READ,
    "InitCompileJob": rules.SUBMIT,
    "InitExecuteJob": rules.SUBMIT,
    "InitSdkCompileJob": rules.SUBMIT,
    "InitSdkExecuteJob": rules.SUBMIT,
    "FinalizeCompileJob": rules.END_JOB_IF_NAMED,
    "PollIngress": rules.INGRESS,
    "PollIngressV2": rules.INGRESS,
    "HeartbeatV2": rules.CLIENT_STREAM,  # each beat names a lease, for which ATTACH_JOB is asked
    "SendClientHeartbeat": rules.BEAT,
    "GetJob": rules.READ_JOB,
    "GetJobEvents": rules.READ_JOB,
    "GetJobInitStatus": rules.READ_JOB,
    "GetJobMeta": rules.ATTACH_JOB,
    "CancelJob": rules.END_JOB_IF_NAMED,
    "CancelJobV2": rules.END_JOB_IF_NAMED,
    "DeleteJob": rules.END_JOB_IF_NAMED,
    "ReportMetrics": rules.READ,
}

_CSCTL: Mapping[str, Rule] = {
    "Get": rules.READ,
    "ListJobs": rules.READ,
    "Patch": replace(rules.EDIT_JOB, field="name"),
    "ListResourceTypes": rules.READ,
    "GetServerConfig": rules.PUBLIC,
    "CancelJobV2": rules.END_JOB_IF_NAMED,
    "UpdateJobPriority": rules.PRIORITISE_JOB,
    "ClearWorkerCache": rules.CLEAR_WORKER_CACHE,
    "GetClusterTopology": rules.READ,
    "GetJobTopology": rules.READ_JOB,
    "CreateLogExport": replace(rules.READ_LOGS, field="name"),
    "GetLogExport": rules.READ_EXPORT,
    "DownloadLogExport": rules.READ_EXPORT,  # a page of it at a time
    "GetDebugArtifactStatus": rules.READ_EXPORT,
    "UpdateDebugArtifactStatus": rules.UPDATE_EXPORT,
    "ReportSystemEvent": rules.REPORT_SYSTEM_EVENT,
    "ListSystemEvents": rules.READ,
}

_CSADM: Mapping[str, Rule] = {
    "CreateSession": rules.MANAGE_SESSION,
    "UpdateSession": rules.MANAGE_SESSION,
    "DeleteSession": rules.MANAGE_SESSION,
    "GetSession": rules.READ,
    "ListSession": rules.READ,
    "SessionPausePendingJobs": rules.PAUSE_SESSION,
    "SessionUnpausePendingJobs": rules.PAUSE_SESSION,
    "UpdateSystemStatus": rules.MANAGE_SYSTEMS,
    "CreateSystemMaintenance": rules.MANAGE_SYSTEMS,
    "GetSystemMaintenance": rules.READ,
    "ListSystemMaintenance": rules.READ,
    "UserBlock": rules.MANAGE_UID,
    "UserUnblock": rules.MANAGE_UID,
    "UserListBlocked": rules.LIST_USERS,
}

_QUEUE: Mapping[str, Rule] = {
    "ListQueue": rules.READ,
    "ExplainJob": rules.READ_JOB,
    "WouldStart": rules.READ,
    "HoldJob": replace(rules.EDIT_JOB, field="job"),
    "RequeueJob": replace(rules.EDIT_JOB, field="job"),
    "ReleaseJob": replace(rules.RELEASE_JOB, field="job"),
    "ReportUse": rules.REPORT,
}

METHODS: Mapping[str, Rule] = {
    f"/{service}/{method}": rule
    for service, methods in {
        "cluster.cluster_mgmt_pb.ClusterManagement": _CLUSTER_MANAGEMENT,
        "cluster.cluster_mgmt_pb.csctl.CsCtlV1": _CSCTL,
        "cluster.cluster_mgmt_pb.csadm.CsAdmV1": _CSADM,
        "wsc.v1.Drivers": {"SubmitDriver": rules.SUBMIT_DRIVER},
        "wsc.v1.Queue": _QUEUE,
        "wsc.v1.Maintenance": {
            "PlanMaintenance": rules.MANAGE_SYSTEMS,
            "EndMaintenance": rules.MANAGE_SYSTEMS,
            "SetSystemState": rules.MANAGE_SYSTEMS,
        },
        "wsc.v1.Logs": {
            "ListLogs": replace(rules.LIST_LOGS, field="job"),
            "StreamLog": replace(rules.FOLLOW_LOG, field="job"),
        },
        "wsc.v1.Runs": {"ListRuns": rules.READ, "GetRun": rules.READ_JOB},
        "wsc.v1.Events": {
            "ListJobEvents": rules.READ_JOB,
            "ListRunSessions": rules.READ_JOB,
            "GetSessionProfile": rules.READ_JOB,
        },
    }.items()
    for method, rule in methods.items()
}
"""By the full name, as in `/wsc.v1.Queue/ListQueue`."""
