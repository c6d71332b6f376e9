"""The coordinator's internal services: for the job's pods, and for management."""

import os
from collections.abc import Callable

import grpc

from appliance.coordinator.run.gang import HEARTBEAT_SECONDS, Gang
from protos.wsc.v1 import management_pb2, management_pb2_grpc, pods_pb2, pods_pb2_grpc


class CoordinatorServicer(pods_pb2_grpc.CoordinatorServicer):
    """Serves `wsc.v1.Coordinator` to the job's pods.

    Args:
        gang: The pods.
        on_heartbeat: Looks at every heartbeat.
    """

    def __init__(
        self, gang: Gang, on_heartbeat: Callable[[pods_pb2.HeartbeatRequest], None]
    ) -> None:
        self._gang, self._on_heartbeat = gang, on_heartbeat

    def Register(
        self, request: pods_pb2.RegisterRequest, context: grpc.ServicerContext
    ) -> pods_pb2.RegisterReply:
        """Note that a pod serves."""
        self._gang.register(request)
        return pods_pb2.RegisterReply(heartbeat_seconds=HEARTBEAT_SECONDS, pid=os.getpid())

    def Heartbeat(
        self, request: pods_pb2.HeartbeatRequest, context: grpc.ServicerContext
    ) -> pods_pb2.HeartbeatReply:
        """Note that a pod lives."""
        self._gang.heartbeat(request)
        self._on_heartbeat(request)
        return pods_pb2.HeartbeatReply()

    def ReportFailure(
        self, request: pods_pb2.FailureReport, context: grpc.ServicerContext
    ) -> pods_pb2.FailureReply:
        """Note that a pod cannot go on."""
        self._gang.report_failure(request)
        return pods_pb2.FailureReply()


class JobControlServicer(management_pb2_grpc.JobControlServicer):
    """Serves `wsc.v1.JobControl` to management.

    Args:
        shut_down: Ends the job, given the reason; returns at once.
        fail: Makes the job fail, given the reason and the pod concerned; returns at once.
        preempt: Makes the job fail because it is preempted, given the reason; returns at once.
    """

    def __init__(
        self,
        shut_down: Callable[[str], None],
        fail: Callable[[str, str], None],
        preempt: Callable[[str], None],
    ) -> None:
        self._shut_down, self._fail, self._preempt = shut_down, fail, preempt

    def Shutdown(
        self, request: management_pb2.ShutdownRequest, context: grpc.ServicerContext
    ) -> management_pb2.ShutdownReply:
        """End the job; after a failure the client can still learn of it."""
        reason = request.reason or "management asked for it"
        if request.is_preemption:
            self._preempt(reason)
        elif request.is_failure:
            self._fail(reason, request.pod)
        else:
            self._shut_down(reason)
        return management_pb2.ShutdownReply()
