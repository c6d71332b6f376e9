"""A client that speaks the public protocol and imports nothing of the public client.

    python -m tests.chaos.wire_client compile --address localhost:9000 --text FILE --compiled FILE
    python -m tests.chaos.wire_client run --address localhost:9000 --compiled FILE --out FILE ...

The second does what the public client does in an execute job: submits it, keeps its lease, sends
the weights, takes the loss of every step, and ends the job with how it went. Calls are repeated as
the public client's gRPC repeats them: unary ones five times, streams never. What it learns goes
into a file line by line, so that whoever watches knows how far it is.
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
"""Last steps of a run, which begin once the file `--until` is there."""
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
        # gRPC's pauses between connections grow to two minutes over many absences of management;
        # each client here meets those of all jobs.
        ("grpc.max_reconnect_backoff_ms", 10_000),
        ("grpc.max_receive_message_length", _MESSAGE_BYTES),
        ("grpc.max_send_message_length", _MESSAGE_BYTES),
    ]


_STREAMS = ("GetOutputStream", "SendInputBidirStream")


class Reach:
    """How management and coordinators are reached.

    Args:
        address: Management's host:port.
        authority: What management's certificate names; empty without TLS.
        ca: File with the certificate of who has signed it; empty without TLS.
    """

    def __init__(self, address, authority="", ca=""):
        self._address, self._authority = address, authority
        self._ca = Path(ca).read_bytes() if ca else None

    def management(self):
        """Return a channel to management."""
        service = "cluster.cluster_mgmt_pb.ClusterManagement"
        return self._channel(self._address, self._authority, service)

    def coordinator(self, ingress):
        """Return a channel to where an ingress points."""
        return self._channel(ingress.service_url, ingress.service_authority, "cerebras.Appliance")

    def _channel(self, address, authority, service):
        options = retrying(service)
        if authority:
            options.append(("grpc.default_authority", authority))
        if self._ca is None:
            return grpc.insecure_channel(address, options)
        options.append(("grpc.ssl_target_name_override", authority))
        return grpc.secure_channel(address, grpc.ssl_channel_credentials(self._ca), options)


def metadata_of(options):
    """Return what says who calls."""
    token = os.environ.get("CSAUTH_TOKEN", "")
    if options.token_file:
        token = Path(options.token_file).read_text().strip()
    return (
        *(("auth-uid", str(os.getuid())), ("auth-gid", str(os.getgid()))),
        *(("auth-username", options.user), ("auth-token", token)),
        ("client-build-version", "2.10.0"),
    )


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
        self.reach = Reach(options.address, options.authority, options.ca)
        self.management = cluster_pb2_grpc.ClusterManagementStub(self.reach.management())
        self.metadata = metadata_of(options)
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
            try:
                for answer in ingress_of(self.management, self.job, self.metadata):
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
        with self.reach.coordinator(ingress) as channel:
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
        held = {"hold": options.steps - HELD_STEPS, "until": options.until}
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


def ingress_of(management, job, metadata):
    """Yield what management says of a job's coordinator.

    As the public client does, it asks for the job's events whenever it hears something: with tokens
    that shows whose connection it is.
    """
    request = cluster_pb2.GetIngressRequest(job_id=job)
    for answer in management.PollIngressV2(request, wait_for_ready=True):
        if not (answer.is_ready or answer.job_failed):
            events = cluster_pb2.GetJobEventsRequest(job_id=job)
            management.GetJobEvents(events, timeout=60, metadata=metadata)
        yield answer


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


def compile_program(reach, text, *, num_systems, num_shards, metadata, timeout=300):
    """Compile a program as the public client does; return the answer of the compile job."""
    with reach.management() as channel:
        management = cluster_pb2_grpc.ClusterManagementStub(channel)
        request = cluster_pb2.CompileJobRequest(
            job_mode=JobMode(job=JobMode.COMPILE), compile_dir_relative_path="cached_compile"
        )
        job = management.InitCompileJob(request, metadata=metadata, timeout=timeout).job_id
        told = list(ingress_of(management, job, metadata))
        ready = [answer for answer in told if answer.is_ready]
        if not ready:
            raise JobFailedError(str(told[-1:]))
        with reach.coordinator(ready[0]) as inner:
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
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--address", required=True, help="management's host:port")
    common.add_argument("--authority", default="", help="what its certificate names, with TLS")
    common.add_argument("--ca", default="", help="file of who has signed the certificate")
    common.add_argument("--user", default="chaos", help="whom the token names")
    common.add_argument("--token-file", default="", help="else CSAUTH_TOKEN")
    common.add_argument("--compiled", required=True, help="file for the compile job's answer")
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    compiles = commands.add_parser("compile", parents=[common])
    compiles.add_argument("--text", required=True, help="file with the program")
    compiles.add_argument("--systems", type=int, default=1)
    compiles.add_argument("--shards", type=int, default=1)
    runs = commands.add_parser("run", parents=[common])
    runs.add_argument("--out", required=True, help="file that takes what happens")
    runs.add_argument("--until", required=True, help="file that lets the last batches go")
    runs.add_argument("--name", required=True, help="label of the job")
    runs.add_argument("--steps", type=int, default=40)
    runs.add_argument("--seconds-per-batch", type=float, default=0.05)
    runs.add_argument("--site", required=True, help="the streamer's environment")
    runs.add_argument("--python-path", action="append", default=[], help="for the streamer")
    options = parser.parse_args()
    if options.command == "run":
        return Client(options).run()
    answer = compile_program(
        Reach(options.address, options.authority, options.ca),
        Path(options.text).read_text(),
        num_systems=options.systems,
        num_shards=options.shards,
        metadata=metadata_of(options),
    )
    Path(options.compiled).write_bytes(answer.SerializeToString())
    return 0


if __name__ == "__main__":
    sys.exit(main())
