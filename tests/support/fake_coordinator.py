"""A coordinator for tests of management: registers, takes a shutdown, does what files tell it."""

import os
import threading
from concurrent import futures

import grpc

from appliance.core.addresses import host_and_port
from appliance.core.clock import SystemClock
from appliance.core.pods.pod_spec import PodSpec
from appliance.pods.peers import Peers
from protos.wsc.v1 import management_pb2 as pb
from protos.wsc.v1 import management_pb2_grpc
from tests.support.files import put

_SHORTEST_SECONDS, _LONGEST_SECONDS = 0.02, 0.25
"""Between two looks at the files: few, as hundreds of these may wait on one machine."""


class _JobControl(management_pb2_grpc.JobControlServicer):
    def __init__(self, spec: PodSpec, ends: threading.Event) -> None:
        self._spec = spec
        self._ends = ends

    def Shutdown(self, request, context):
        put(self._spec.work_dir / "shutdown", f"{request.is_failure} {request.reason}")
        if not request.is_failure:
            self._ends.set()
        return pb.ShutdownReply()


def run_pod(spec: PodSpec) -> int:
    """Serve until told to end; a file `exit` in the runtime directory holds an exit code."""
    ends = threading.Event()
    who = spec.job_key_metadata
    server = grpc.server(futures.ThreadPoolExecutor(2))
    management_pb2_grpc.add_JobControlServicer_to_server(_JobControl(spec, ends), server)
    server.add_insecure_port(spec.control_address())
    server.start()
    peers = Peers(spec, SystemClock())
    with grpc.insecure_channel(peers.management()) as channel:
        management = management_pb2_grpc.ManagementStub(channel)
        management.RegisterCoordinator(
            pb.RegisterCoordinatorRequest(
                job=spec.job,
                service_address=host_and_port(spec.options.public_host, 1),
                control_address=spec.control_address(),
                pid=os.getpid(),
            ),
            timeout=120,
            metadata=who,
        )
        wanted = spec.runtime_dir / "exit"
        report = spec.runtime_dir / "report"
        pause_seconds = _SHORTEST_SECONDS
        while not ends.wait(pause_seconds):
            pause_seconds = min(1.5 * pause_seconds, _LONGEST_SECONDS)
            if report.exists():
                phase, message = report.read_text().split(" ", 1)
                report.unlink()
                management.ReportJob(
                    pb.JobReport(job=spec.job, phase=phase, message=message),
                    timeout=120,
                    metadata=who,
                )
            if wanted.exists():
                return int(wanted.read_text())
    peers.close()
    server.stop(0.1)
    return 0
