"""Tries what a user of the machine must not get, and prints what became of it.

`stranger.py UID PLAN`: PLAN is JSON with `rest` (URLs), `management` (an address), `coordinator`
(an address and an authority), `job` and `roots` (host:port of a connection of root's to REST).
Everything is loaded before the rights are given up, since who has none may not be able to read
Python itself.
"""

import encodings.idna  # noqa: F401 - names are looked up after the rights are given up
import json
import os
import socket
import struct
import sys
import urllib.error
import urllib.request
from urllib.parse import urlsplit

import grpc

from protos.appliance import appliance_service_pb2_grpc, ws_common_pb2
from protos.cluster import cluster_pb2, cluster_pb2_grpc

SECONDS = 60
NUM_RESETS, NUM_IN_A_ROW = 20, 20


def get(url: str | urllib.request.Request) -> int:
    """Return the status of a REST request."""
    try:
        with urllib.request.urlopen(url, timeout=SECONDS) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return int(error.code)


def forge(url: str, roots: str) -> list[int]:
    """Return the status of requests that say that they come by another connection."""
    names = ("X-Forwarded-For", "Forwarded", "X-Real-IP")
    values = (roots, f"for={roots}", roots)
    return [
        get(urllib.request.Request(url, headers={name: value}))
        for name, value in zip(names, values, strict=True)
    ]


def send_and_reset(url: str, path: str) -> None:
    """Send requests in a row and reset the connection, so that its port is free at once."""
    parts = urlsplit(url)
    request = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n".encode()
    for _ in range(NUM_RESETS):
        with socket.create_connection((parts.hostname, parts.port), SECONDS) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.sendall(request * NUM_IN_A_ROW)


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
            "forged": forge(plan["rest"][0], plan["roots"]),
            "GetJob": code(lambda: stub.GetJob(request, timeout=SECONDS)),
            "GetJob as root": code(lambda: stub.GetJob(request, metadata=claims, timeout=SECONDS)),
            "GetJobMeta": code(lambda: stub.GetJobMeta(meta, timeout=SECONDS)),
            "PollIngressV2": code(lambda: stub.PollIngressV2(asked, timeout=SECONDS)),
            "HeartbeatV2": code(lambda: stub.HeartbeatV2(iter([beat]), timeout=SECONDS)),
        }
    if os.getuid() != 0:  # who may do it
        send_and_reset(plan["rest"][0], f"/api/v1/jobs/{plan['job']}/cancel")
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
