"""Pods that leave a line for each start, and a coordinator that outlives management."""

import os
import threading
from concurrent import futures

import grpc

from appliance.core.ids import Role
from appliance.core.pods.pod_spec import PodSpec
from protos.wsc.v1 import management_pb2 as pb
from protos.wsc.v1 import management_pb2_grpc

STARTS = "starts"


class _JobControl(management_pb2_grpc.JobControlServicer):
    def __init__(self, ends: threading.Event) -> None:
        self._ends = ends

    def Shutdown(self, request, context):
        if not request.is_failure:
            self._ends.set()
        return pb.ShutdownReply()


def run_pod(spec: PodSpec) -> int:
    with (spec.work_dir / STARTS).open("a") as starts:
        starts.write(f"{spec.name}\n")
    ends = threading.Event()
    if spec.role is Role.COORDINATOR:
        _serve(spec, ends)
    else:
        ends.wait()
    return 0


def _serve(spec: PodSpec, ends: threading.Event) -> None:
    server = grpc.server(futures.ThreadPoolExecutor(1))
    management_pb2_grpc.add_JobControlServicer_to_server(_JobControl(ends), server)
    server.add_insecure_port(spec.control_address())
    server.start()
    request = pb.RegisterCoordinatorRequest(
        job=spec.job, service_address="localhost:1", pid=os.getpid()
    )
    options = (("grpc.min_reconnect_backoff_ms", 50), ("grpc.max_reconnect_backoff_ms", 100))
    with grpc.insecure_channel(spec.management_address, options) as channel:
        management = management_pb2_grpc.ManagementStub(channel)
        while not ends.is_set():
            try:
                management.RegisterCoordinator(request, timeout=1, wait_for_ready=True)
            except grpc.RpcError as error:
                if error.code() is grpc.StatusCode.NOT_FOUND:
                    raise
            else:
                break
        ends.wait()
    server.stop(None)
