"""Tries what a user of the machine must not get, and prints what became of it.

`stranger.py UID PLAN`: PLAN is JSON with `rest` (URLs), `management` (an address), `coordinator`
(an address and an authority) and `job`. Everything is loaded before the rights are given up, since
who has none may not be able to read Python itself.
"""

import encodings.idna  # noqa: F401 - names are looked up after the rights are given up
import json
import os
import sys
import urllib.error
import urllib.request

import grpc

from protos.appliance import appliance_service_pb2_grpc, ws_common_pb2
from protos.cluster import cluster_pb2, cluster_pb2_grpc

SECONDS = 60


def get(url: str) -> int:
    """Return the status of a REST request."""
    try:
        with urllib.request.urlopen(url, timeout=SECONDS) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return int(error.code)


def code(call) -> str:
    """Return the status of a call, or of a stream."""
    try:
        answer = call()
        if hasattr(answer, "__iter__"):
            list(answer)
    except grpc.RpcError as error:
        return error.code().name
    return "OK"


def tried(plan) -> dict:
    """Try everything."""
    with grpc.insecure_channel(plan["management"]) as channel:
        stub = cluster_pb2_grpc.ClusterManagementStub(channel)
        beat = cluster_pb2.HeartbeatRequest(lease_id=plan["job"])
        asked = cluster_pb2.GetIngressRequest(job_id=plan["job"])
        claims = (("auth-uid", "0"), ("auth-gid", "0"), ("auth-username", "root"))
        request = cluster_pb2.GetJobRequest(job_id=plan["job"])
        meta = cluster_pb2.GetJobMetaRequest(job_id=plan["job"])
        got = {
            "rest": [get(url) for url in plan["rest"]],
            "GetJob": code(lambda: stub.GetJob(request, timeout=SECONDS)),
            "GetJob as root": code(lambda: stub.GetJob(request, metadata=claims, timeout=SECONDS)),
            "GetJobMeta": code(lambda: stub.GetJobMeta(meta, timeout=SECONDS)),
            "PollIngressV2": code(lambda: stub.PollIngressV2(asked, timeout=SECONDS)),
            "HeartbeatV2": code(lambda: stub.HeartbeatV2(iter([beat]), timeout=SECONDS)),
        }
    options = [("grpc.default_authority", plan["coordinator"][1])]
    with grpc.insecure_channel(plan["coordinator"][0], options) as channel:
        client = appliance_service_pb2_grpc.ApplianceStub(channel)
        ping = ws_common_pb2.PingRequest()
        got["UnaryPing"] = code(lambda: client.UnaryPing(ping, timeout=SECONDS))
    return got


if __name__ == "__main__":
    uid = int(sys.argv[1])
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
    sys.stdout.write(json.dumps(tried(json.loads(sys.argv[2]))))
