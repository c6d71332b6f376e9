"""Calls to the cluster's `CsCtlV1` service: one method for each query or change.

Objects arrive as protobuf and are rendered here, never by the cluster: the columns belong to this
program's version. A failed call raises one of our own errors (csctl.connection.errors).
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from appliance.core.errors import InternalError
from csctl.connection.config import ClusterAccess
from csctl.connection.errors import from_rpc
from protos.csctl import api_pb2
from protos.csctl.api_pb2_grpc import CsCtlV1Stub

M = TypeVar("M", bound=Message)
Request = TypeVar("Request")
Reply = TypeVar("Reply")

# A person waits: a cluster that takes longer than this to list its queue is down.
_CALL_SECONDS = 30.0

JOB = "job"


class ClusterClient:
    """One user's calls to one cluster.

    Args:
        channel: To the cluster; other services than csctl's own are asked over it too.
        access: The way it was reached, for messages.
        metadata: The user's identity.
        seconds: How long one call may take.
    """

    def __init__(
        self,
        channel: grpc.Channel,
        *,
        access: ClusterAccess,
        metadata: tuple[tuple[str, str], ...],
        seconds: float = _CALL_SECONDS,
    ) -> None:
        self.channel = channel
        self._stub = CsCtlV1Stub(channel)
        self._seconds = seconds
        self._access = access
        self._metadata = metadata

    def get(
        self,
        resource_type: str,
        into: type[M],
        *,
        name: str = "",
        options: api_pb2.GetOptions | None = None,
        in_all_sessions: bool = False,
    ) -> M:
        """Return the resources of a type, or the one named.

        Args:
            resource_type: As `csctl types` lists them.
            into: The message that the cluster answers with for this type.
            name: One resource's name; empty for all.
            options: Filters; the session is filled in here.
            in_all_sessions: Leave it out, so that every session is asked for.
        """
        request = api_pb2.GetRequest(
            type=resource_type,
            name=name,
            accept=api_pb2.PROTOBUF_METHOD,
            representation=api_pb2.OBJECT_REPRESENTATION,
            options=options,
        )
        if not in_all_sessions:
            request.options.namespace = self._access.namespace
        reply = self.call(self._stub.Get, request)
        try:
            return into.FromString(reply.raw)
        except DecodeError as error:
            raise InternalError(
                f"Cluster '{self._access.cluster}' answered for '{resource_type}' with "
                f"{len(reply.raw)} bytes that are not a {into.DESCRIPTOR.name}.",
                hint="Compare the versions in `csctl get version`.",
            ) from error

    def change_labels(self, job: str, changes: Mapping[str, str | None]) -> None:
        """Set the labels that have a value and remove those with None.

        The patch is JSON, since a protobuf map cannot say "remove": a merge patch (RFC 7396) can.
        """
        patch = {"meta": {"labels": dict(changes)}}
        self.call(
            self._stub.Patch,
            api_pb2.PatchRequest(
                type=JOB,
                name=job,
                content_type=api_pb2.JSON_METHOD,
                accept=api_pb2.PROTOBUF_METHOD,
                patch_type=api_pb2.PatchRequest.MERGE,
                body=json.dumps(patch).encode(),
            ),
        )

    def cancel_job(self, job: str) -> str:
        """Cancel the job and return the cluster's message."""
        request = api_pb2.CancelJobRequest(
            job_id=job, job_status=api_pb2.JobStatus.JOB_STATUS_CANCELLED
        )
        return self.call(self._stub.CancelJobV2, request).message

    def set_priority(self, job: str, priority: str) -> str:
        """Change the priority of the job's workflow and return the cluster's message."""
        request = api_pb2.UpdateJobPriorityRequest(job_id=job, job_priority=priority)
        return self.call(self._stub.UpdateJobPriority, request).message

    def resource_types(self) -> list[str]:
        """Return the types that `get` knows."""
        reply = self.call(self._stub.ListResourceTypes, api_pb2.ListResourceTypesRequest())
        return [item.name for item in reply.items]

    @property
    def namespace(self) -> str:
        """The session that commands work in."""
        return self._access.namespace

    def call(
        self, method: "grpc.UnaryUnaryMultiCallable[Request, Reply]", request: Request
    ) -> Reply:
        """Call a method and return its reply; raises our own errors."""
        try:
            return method(request, timeout=self._seconds, metadata=self._metadata)
        except grpc.RpcError as error:
            raise from_rpc(error, self._access) from error

    def stream(
        self, method: "grpc.UnaryStreamMultiCallable[Request, Reply]", request: Request
    ) -> Iterator[Reply]:
        """Call a method and yield its replies; raises our own errors."""
        try:
            yield from method(request, metadata=self._metadata)
        except grpc.RpcError as error:
            raise from_rpc(error, self._access) from error


@contextmanager
def connect(
    access: ClusterAccess,
    *,
    metadata: tuple[tuple[str, str], ...],
    seconds: float = _CALL_SECONDS,
) -> Iterator[ClusterClient]:
    """Open a channel for the time of the block; the first call connects."""
    with _open_channel(access) as channel:
        yield ClusterClient(channel, access=access, metadata=metadata, seconds=seconds)


def _open_channel(access: ClusterAccess) -> grpc.Channel:
    # A queue of 100,000 jobs is some 30 MB; the limit of 4 MB protects servers, not their clients.
    options: list[tuple[str, int | str]] = [("grpc.max_receive_message_length", -1)]
    if access.is_loopback:  # where no proxy leads, whatever https_proxy says
        options.append(("grpc.enable_http_proxy", 0))
    if access.certificate is None:
        return grpc.insecure_channel(access.server, options)
    # The address is usually an IP; the certificate, and the ingress behind it, go by this name.
    options += [
        ("grpc.default_authority", access.authority),
        ("grpc.ssl_target_name_override", access.authority),
    ]
    credentials = grpc.ssl_channel_credentials(access.certificate)
    return grpc.secure_channel(access.server, credentials, options)
