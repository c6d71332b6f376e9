"""What is tried over gRPC."""

from collections.abc import Callable, Iterator, Mapping

import grpc

from protos.appliance import appliance_service_pb2_grpc, ws_common_pb2
from protos.cluster import cluster_pb2 as pb
from protos.cluster import cluster_pb2_grpc
from protos.csctl import api_pb2, api_pb2_grpc
from tests.attack.http2 import DATA, HEADERS, answer_kind, post
from tests.attack.targets import SECONDS, Target

_BROKEN = ("INTERNAL", "UNKNOWN", "DATA_LOSS")


def _code(call: Callable[[], object]) -> str:
    """Return the status of a call, or of a stream with all its answers."""
    try:
        answer = call()
        if hasattr(answer, "__iter__"):
            list(answer)
    except grpc.RpcError as error:
        return str(error.code().name)
    return "OK"


def a_claim_in_metadata_is_none(target: Target) -> str:
    """Calls itself root, or another user, in the metadata of a call."""
    asked = pb.CancelJobRequest(job_id=target.job)
    with target.channel() as channel:
        stub = cluster_pb2_grpc.ClusterManagementStub(channel)
        for uid, name in (("0", "root"), ("00", "root"), ("-0", "root"), ("0", "")):
            claims = (("auth-uid", uid), ("auth-gid", "0"), ("auth-username", name))
            metadata = (*claims, *target.metadata())
            if _code(lambda m=metadata: stub.CancelJob(asked, metadata=m, timeout=SECONDS)) == "OK":
                return f"{claims} ends the job"
    return ""


def no_call_ends_a_job_of_another(target: Target) -> str:
    """Ends, deletes and changes root's job, and reads what its client alone is told."""
    with target.channel() as channel:
        for name, code in _tried(target, channel):
            if code == "OK":
                return name
    return ""


def _tried(target: Target, channel: grpc.Channel) -> Iterator[tuple[str, str]]:
    cluster = cluster_pb2_grpc.ClusterManagementStub(channel)
    csctl = api_pb2_grpc.CsCtlV1Stub(channel)
    job, metadata = target.job, target.metadata()
    tries = (
        (cluster.CancelJob, pb.CancelJobRequest(job_id=job)),
        (cluster.CancelJobV2, pb.CancelJobRequest(job_id=job)),
        (cluster.DeleteJob, pb.DeleteJobRequest(job_id=job)),
        (cluster.GetJobMeta, pb.GetJobMetaRequest(job_id=job)),
        (csctl.CancelJobV2, api_pb2.CancelJobRequest(job_id=job)),
        (csctl.CreateLogExport, api_pb2.CreateLogExportRequest(name=job)),
    )
    for method, request in tries:
        name = f"{type(request).__name__}"
        yield name, _code(lambda m=method, r=request: m(r, metadata=metadata, timeout=SECONDS))


def nobody_else_is_told_the_authority(target: Target) -> str:
    """Polls the ingress of root's job and keeps its lease alive."""
    with target.channel() as channel:
        stub = cluster_pb2_grpc.ClusterManagementStub(channel)
        asked = pb.GetIngressRequest(job_id=target.job)
        try:
            for answer in stub.PollIngressV2(asked, timeout=5):
                if answer.service_authority or answer.service_url:
                    return f"told {answer.service_url} {answer.service_authority}"
        except grpc.RpcError:
            pass
    return ""


def whoever_knows_the_authority_is_refused(target: Target) -> str:
    """Calls the coordinator of root's job with its whole secret authority."""
    if not all(target.coordinator):
        return ""
    with target.coordinator_channel() as channel:
        stub = appliance_service_pb2_grpc.ApplianceStub(channel)
        ping = ws_common_pb2.PingRequest()
        code = _code(lambda: stub.UnaryPing(ping, timeout=SECONDS))
    return "UnaryPing is answered" if code == "OK" else ""


def integers_of_any_length_are_read(target: Target) -> str:
    """Sends numbers of 5,000 digits wherever a caller says a number."""
    digits = "9" * 5000
    with target.channel() as channel:
        stub = cluster_pb2_grpc.ClusterManagementStub(channel)
        asked = pb.GetJobRequest(job_id=target.job)
        for name in ("auth-uid", "auth-gid", "grpc-previous-rpc-attempts", "job-priority"):
            for text in (digits, f"-{digits}", "1e999", "0x10", "1_000", " 7 "):
                metadata = ((name, text), *target.metadata())
                code = _code(lambda m=metadata: stub.GetJob(asked, metadata=m, timeout=SECONDS))
                if code in _BROKEN:
                    return f"{name} of {len(text)} characters: {code}"
    return ""


def pages_make_no_calls(target: Target) -> str:
    """A page of another site makes a browser send a whole call to the clients' port, by HTTP/2.

    A page chooses a body and, without being asked first, a plain type; `te`, without which there is
    no call, no page can send.
    """
    message = pb.CancelJobRequest(job_id=target.job).SerializeToString()
    for kind in ("text/plain", "application/x-www-form-urlencoded", "application/grpc"):
        page = {"content-type": kind, "origin": "https://evil.example"}
        if _is_answered(target, "CancelJob", message, page):
            return f"{kind} is answered"
    client = {"content-type": "application/grpc", "te": "trailers"}
    is_made = _is_answered(target, "GetJob", message, client)
    return "" if is_made else "what a client sends is not answered either: the attack is not made"


def _is_answered(target: Target, method: str, message: bytes, headers: Mapping[str, str]) -> bool:
    path = f"/cluster.cluster_mgmt_pb.ClusterManagement/{method}"
    with target.connect_clients() as connection:
        connection.settimeout(SECONDS)
        connection.sendall(post(path, message, headers))
        return answer_kind(connection) in (HEADERS, DATA)


CALLS = (
    a_claim_in_metadata_is_none,
    no_call_ends_a_job_of_another,
    nobody_else_is_told_the_authority,
    whoever_knows_the_authority_is_refused,
    integers_of_any_length_are_read,
)
