"""A client that speaks the public protocol and imports nothing of the public client.

    python -m tests.chaos.wire_client --address localhost:9000 --compiled FILE --out FILE ...

It does what the public client does in an execute job: submits it, keeps its lease, sends the
weights, takes the loss of every step, and ends the job with how it went. Calls are repeated as the
public client's gRPC repeats them: unary ones five times, streams never. What it learns goes into a
file line by line, so that whoever watches knows how far it is.
"""

import argparse
import json
import os
import sys
import threading
import time
from pathlib import Path

import grpc
import numpy as np

from protos.appliance import appliance_service_pb2 as pb
from protos.appliance import appliance_service_pb2_grpc
from protos.appliance.common_config_pb2 import DebugArgs, JobMode
from protos.appliance.rtfx_pb2 import RtFxProto
from protos.appliance.ws_common_pb2 import StatusCode
from protos.cluster import cluster_pb2, cluster_pb2_grpc

BEAT_SECONDS = 2.0
HELD_STEPS = 8
"""Last steps of a run, which begin once the file `<out>.go` is there."""
_FAILURE_SECONDS = 60.0
_AWAY_SECONDS = 120.0
"""The public client gives up after some 24; on a busy machine a start may take longer."""
_MESSAGE_BYTES = 1 << 30
STATE = {
    "state.model.fc1.weight": (16, 8),
    "state.model.fc1.bias": (16,),
    "state.model.fc2.weight": (4, 16),
    "state.model.fc2.bias": (4,),
}
"""State tensors of the program, tests/unit/compiler/programs/mlp.mlir."""


class JobFailedError(Exception):
    """The job did not go well, as an answer says or a broken call shows."""


def retrying(service):
    """Return channel options with the public client's retry policy."""
    policy = {
        "maxAttempts": 5,
        "initialBackoff": "2s",
        "maxBackoff": "10s",
        "backoffMultiplier": 2,
        "retryableStatusCodes": ["UNAVAILABLE", "UNKNOWN", "RESOURCE_EXHAUSTED"],
    }
    method = {"name": [{"service": service}], "retryPolicy": policy}
    never = [{"service": service, "method": name} for name in _STREAMS]
    config = {"methodConfig": [method, {"name": never}]}
    return [
        ("grpc.service_config", json.dumps(config)),
        ("grpc.max_receive_message_length", _MESSAGE_BYTES),
        ("grpc.max_send_message_length", _MESSAGE_BYTES),
    ]


_STREAMS = ("GetOutputStream", "SendInputBidirStream")


class Story:
    """What has happened so far, one JSON object a line."""

    def __init__(self, path):
        self._path = Path(path)

    def tell(self, **fields):
        with self._path.open("a") as file:
            file.write(json.dumps(fields) + "\n")


class Client:
    """One run."""

    def __init__(self, options):
        self.options, self.story = options, Story(options.out)
        channel = grpc.insecure_channel(
            options.address, retrying("cluster.cluster_mgmt_pb.ClusterManagement")
        )
        self.management = cluster_pb2_grpc.ClusterManagementStub(channel)
        user = str(os.getuid())
        self.metadata = (
            ("auth-uid", user),
            ("auth-gid", str(os.getgid())),
            ("auth-username", "chaos"),
            ("auth-token", os.environ.get("CSAUTH_TOKEN", "")),
            ("client-build-version", "2.10.0"),
        )
        self.job = ""
        self.ended = threading.Event()

    def run(self):
        """Run the job to its end; return the exit status."""
        self._submit()
        beats = threading.Thread(target=self._beat, daemon=True)
        beats.start()
        try:
            self._train()
        except (grpc.RpcError, JobFailedError) as error:
            return self._fail(error)
        finally:
            self.ended.set()
            beats.join()
        self._end(cluster_pb2.JOB_STATUS_SUCCEEDED, "success")
        self.story.tell(end="succeeded")
        return 0

    def _submit(self):
        compiled = pb.CompileResponse.FromString(Path(self.options.compiled).read_bytes())
        self.cache_dir = compiled.cache_compile_dir
        request = cluster_pb2.ExecuteJobRequest(
            job_mode=JobMode(job=JobMode.EXECUTE, cluster_details=compiled.cluster_details),
            debug_args=DebugArgs(),
            compile_artifact_dir=self.cache_dir,
            python_paths=self.options.python_path,
        )
        request.user_sidecar_env.python_path = self.options.site
        request.debug_args.debug_mgr.labels["run"] = self.options.name
        # Where management starts so slowly that gRPC's attempts are not enough, this stands for the
        # user who starts the script again; a job of the first attempts would end with its lease.
        self.job = self._patiently(self.management.InitExecuteJob, request, seconds=120).job_id
        self.story.tell(job=self.job, pid=os.getpid())

    def _beat(self):
        beat = cluster_pb2.HeartbeatRequest(lease_id=self.job, job_id=self.job)
        while not self.ended.wait(BEAT_SECONDS):
            try:
                self.management.SendClientHeartbeat(beat, timeout=5, metadata=self.metadata)
                self.story.tell(renewed=True)
            except grpc.RpcError as error:
                self.story.tell(beat=error.code().name)

    def _ingress(self):
        """Return where the coordinator is; asks again as the public client does."""
        for _ in range(12):
            request = cluster_pb2.GetIngressRequest(job_id=self.job)
            try:
                for answer in self.management.PollIngressV2(request, wait_for_ready=True):
                    if answer.job_failed:
                        raise JobFailedError(answer.message)
                    if answer.is_ready:
                        return answer
            except grpc.RpcError as error:
                self.story.tell(ingress=error.code().name)
                self.ended.wait(1.0)  # as the public client, which waits five
        raise JobFailedError("no ingress")

    def _train(self):
        ingress = self._ingress()
        options = [
            *retrying("cerebras.Appliance"),
            ("grpc.default_authority", ingress.service_authority),
        ]
        with grpc.insecure_channel(ingress.service_url, options) as channel:
            stub = appliance_service_pb2_grpc.ApplianceStub(channel)
            check(stub.UnaryStart(pb.StartRequest(), wait_for_ready=True))
            check(stub.UnaryLoad(pb.LoadRequest(cache_compile_dir=self.cache_dir)))
            check(stub.UnaryRun(self._run_request()))
            for name, shape in STATE.items():
                for answer in stub.SendInputBidirStream(weight_messages(name, shape)):
                    check(answer)
            check(stub.UnaryStartStreaming(pb.StartStreamingRequest()))
            self.story.tell(streaming=True)
            for step in range(self.options.steps):
                self.story.tell(step=step, loss=fetch(stub, step, "output_loss").hex())
            state = fetch(stub, self.options.steps - 1, "state.model.fc2.bias")
            self.story.tell(state=state.hex())
            check(stub.UnaryFinalize(pb.FinalizeRequest(state=pb.FinalizeRequest.FS_SUCCESS)))
            stub.UnaryDone(pb.DoneRequest())

    def _run_request(self):
        options = self.options
        held = {"hold": options.steps - HELD_STEPS, "until": f"{options.out}.go"}
        loader = json.dumps({"seed": 5, "seconds": options.seconds_per_batch, **held})
        request = pb.RunRequest(num_iterations=self.options.steps, activation_freq=1)
        request.live_dataloaders.append(1)
        request.dataloader.id = 1
        request.dataloader.builder = loader.encode().hex()
        steps = self.options.steps
        request.checkpoint_schedule.intervals.add(start=steps - 1, end=steps, step=1)
        return request

    def _fail(self, error):
        """Ask for the reason, as the public client does, and end the job as failed."""
        text = error.details() if isinstance(error, grpc.RpcError) else str(error)
        self.story.tell(error=text)
        deadline = time.monotonic() + _FAILURE_SECONDS
        reason = None
        while time.monotonic() < deadline:
            request = cluster_pb2.GetJobRequest(job_id=self.job)
            reason = self._patiently(self.management.GetJob, request)
            if reason.status != cluster_pb2.JOB_STATUS_IN_PROGRESS:
                break
            self.ended.wait(0.5)  # the public client waits five seconds
        last = text
        try:
            self._end(cluster_pb2.JOB_STATUS_FAILED, text)
        except grpc.RpcError as refusal:
            last = refusal.details() or ""
        self.story.tell(end="failed", reason=reason.message if reason else "", last=last)
        return 1

    def _end(self, status, message):
        request = cluster_pb2.CancelJobRequest(
            job_id=self.job, job_status=status, message=message or ""
        )
        self._patiently(self.management.CancelJobV2, request)

    def _patiently(self, call, request, seconds=60):
        """Call management, which may be away for longer than gRPC repeats a call."""
        deadline = time.monotonic() + _AWAY_SECONDS
        while True:
            try:
                return call(request, timeout=seconds, metadata=self.metadata)
            except grpc.RpcError as error:
                is_away = error.code() is grpc.StatusCode.UNAVAILABLE
                if not is_away or time.monotonic() > deadline:
                    raise


def check(answer):
    """Raise what an answer says."""
    if answer.code != StatusCode.WS_RT_SUCCESS:
        raise JobFailedError(answer.message)


def weight_messages(name, shape):
    """Yield a weight as the public client sends it: what it is, then its bytes."""
    chance = np.random.default_rng(len(name))
    values = chance.standard_normal(shape).astype(np.float32) * np.float32(0.3)
    first = pb.SendInputRequest(tensor_name=name, has_more=True, num_bytes=values.nbytes)
    first.rtfx_proto.dtype = RtFxProto.T_F32
    first.rtfx_proto.tensor.shape.extend(shape)
    yield first
    chunk = pb.SendInputRequest(tensor_name=name)
    chunk.rtfx_proto.CopyFrom(first.rtfx_proto)
    chunk.rtfx_proto.tensor.data = values.tobytes()
    yield chunk


def fetch(stub, step, name):
    """Return the bytes of an output of a step."""
    data = b""
    for answer in stub.GetOutputStream(pb.GetOutputRequest(iteration=step, tensor_name=name)):
        check(answer)
        data += answer.rtfx_proto.tensor.data
    return data


def compile_program(address, text, *, num_systems, num_shards, metadata, timeout=300):
    """Compile a program as the public client does; return the answer of the compile job."""
    service = "cluster.cluster_mgmt_pb.ClusterManagement"
    with grpc.insecure_channel(address, retrying(service)) as channel:
        management = cluster_pb2_grpc.ClusterManagementStub(channel)
        request = cluster_pb2.CompileJobRequest(
            job_mode=JobMode(job=JobMode.COMPILE), compile_dir_relative_path="cached_compile"
        )
        job = management.InitCompileJob(request, metadata=metadata, timeout=timeout).job_id
        ingress = cluster_pb2.GetIngressRequest(job_id=job)
        ready = [
            each for each in management.PollIngressV2(ingress, timeout=timeout) if each.is_ready
        ]
        options = [
            *retrying("cerebras.Appliance"),
            ("grpc.default_authority", ready[0].service_authority),
        ]
        with grpc.insecure_channel(ready[0].service_url, options) as inner:
            stub = appliance_service_pb2_grpc.ApplianceStub(inner)
            wanted = pb.CompileRequest(
                cirh_content=text,
                compile_dir="chaos",
                num_csx=num_systems,
                max_wgt_servers=num_shards,
                num_workers_per_csx=1,
                batch_size=4,
            )
            answer = stub.UnaryCompile(wanted, timeout=timeout)
            done = cluster_pb2.CompileResultRequest(
                job_id=job, compile_artifact_dir=answer.cache_compile_dir
            )
            management.FinalizeCompileJob(done, metadata=metadata, timeout=timeout)
            stub.UnaryDone(pb.DoneRequest(), timeout=timeout)
        end = cluster_pb2.CancelJobRequest(
            job_id=job, job_status=cluster_pb2.JOB_STATUS_SUCCEEDED, message="success"
        )
        management.CancelJobV2(end, metadata=metadata, timeout=timeout)
    return answer


def main():
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", required=True, help="management's host:port")
    parser.add_argument("--compiled", required=True, help="file with the compile job's answer")
    parser.add_argument("--out", required=True, help="file that takes what happens")
    parser.add_argument("--name", required=True, help="label of the job")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--seconds-per-batch", type=float, default=0.05)
    parser.add_argument("--site", required=True, help="the streamer's environment")
    parser.add_argument("--python-path", action="append", default=[], help="for the streamer")
    return Client(parser.parse_args()).run()


if __name__ == "__main__":
    sys.exit(main())
