"""The client's ClusterManagement service: properties of this server, and unsupported methods."""

from appliance.management.rpc.call_context import Context, caller_of
from appliance.management.store import versions
from protos.cluster import cluster_pb2 as pb

_PYTHON_IMAGE = "python:3.11"


class ServerMethods:
    """Answers the client about the server.

    Args:
        needs_token: Whether every call must carry a token.
    """

    def __init__(self, *, needs_token: bool = False) -> None:
        self._needs_token = needs_token

    def GetServerConfig(
        self, request: pb.GetServerConfigRequest, context: Context
    ) -> pb.GetServerConfigResponse:
        """Say what this server is; see `versions` for why the server's own is empty."""
        return pb.GetServerConfigResponse(
            is_user_auth_enabled=self._needs_token,
            cluster_server_semantic_version=versions.CLUSTER_SERVER_SEMVER,
            job_operator_semantic_version=versions.JOB_OPERATOR_SEMVER,
            supported_sidecar_images=[_PYTHON_IMAGE],
        )

    def GetServerVersions(
        self, request: pb.GetServerVersionsRequest, context: Context
    ) -> pb.GetServerVersionsResponse:
        """Name the client's own build, if this appliance serves it, else all that it serves."""
        version, githash = versions.client_build(caller_of(context).client_release)
        names = (pb.COMPONENT_NAME_CLUSTER_SERVER, pb.COMPONENT_NAME_JOB_OPERATOR)
        return pb.GetServerVersionsResponse(
            versions=[
                pb.ComponentVersion(name=name, version=f"{version}+{githash}") for name in names
            ]
        )

    def IsMessageBrokerAvailable(
        self, request: pb.MessageBrokerAvailabilityCheckRequest, context: Context
    ) -> pb.MessageBrokerAvailabilityCheckResponse:
        """There is no message broker."""
        return pb.MessageBrokerAvailabilityCheckResponse(is_available=False)

    def HasMultiMgmtNodes(
        self, request: pb.HasMultiMgmtNodesRequest, context: Context
    ) -> pb.HasMultiMgmtNodesResponse:
        """There is one management node."""
        return pb.HasMultiMgmtNodesResponse(has_multi_mgmt_nodes=False)

    def CheckStorageConnectivity(
        self, request: pb.CheckStorageConnectivityRequest, context: Context
    ) -> pb.CheckStorageConnectivityResponse:
        """Object storage is not served."""
        return pb.CheckStorageConnectivityResponse(
            is_reachable=False,
            message="This appliance reads and writes the user's file system, not object storage.",
        )

    def InitImageBuildJob(
        self, request: pb.InitImageBuildRequest, context: Context
    ) -> pb.ImageBuildResponse:
        """No image is built: input workers run in the user's environment."""
        return pb.ImageBuildResponse(mount_user_venv=True)

    def GetImageBuildJob(
        self, request: pb.ImageBuildRequest, context: Context
    ) -> pb.ImageBuildResponse:
        """No image is built."""
        return pb.ImageBuildResponse(mount_user_venv=True, status=pb.JOB_STATUS_SUCCEEDED)

    def DeleteImageBuildJob(
        self, request: pb.ImageBuildRequest, context: Context
    ) -> pb.ImageBuildResponse:
        """No image was built."""
        return pb.ImageBuildResponse(mount_user_venv=True, status=pb.JOB_STATUS_DELETED)

    def ReportMetrics(
        self, request: pb.ReportMetricRequest, context: Context
    ) -> pb.ReportMetricResponse:
        """Accept the client's metrics; they are not kept yet."""
        return pb.ReportMetricResponse(code=pb.ReportMetricResponse.SUCCESS)
