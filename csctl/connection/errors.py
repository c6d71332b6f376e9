"""Translates gRPC errors into ours, and prints errors on the user's terminal."""

import os
from collections.abc import Mapping

import grpc

from appliance.core.addresses import bare_host
from appliance.core.errors import ClusterError, InternalError, NotFoundError, UserError, WscError
from csctl.connection.config import ClusterAccess
from protos.csctl.resources_pb2 import Job, JobStatus


class FollowedJobError(WscError):
    """The job that a command followed has ended, and not well."""

    exit_code = 1

    def __init__(self, job: Job) -> None:
        phase = JobStatus.Phase.Name(job.status.phase)
        why = job.meta.properties.get("message", "")
        super().__init__(f"Job {job.meta.name} is {phase}{f': {why}' if why else ''}.")


_PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")
"""Variables that gRPC takes a proxy from, in its order."""

_USER_CODES = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.ALREADY_EXISTS,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.OUT_OF_RANGE,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.ABORTED,
    }
)
_CLUSTER_CODES = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.CANCELLED,
    }
)


def from_rpc(error: grpc.RpcError, access: ClusterAccess) -> WscError:
    """Return our error for a failed call; the cluster's own sentences are kept."""
    if not isinstance(error, grpc.Call):
        return InternalError(f"A call to cluster '{access.cluster}' failed: {error!r}.")
    code, details = error.code(), _sentence(error.details() or "no details")
    where = f"Cluster '{access.cluster}' at {access.server}"
    if code is grpc.StatusCode.NOT_FOUND:
        return NotFoundError(details)
    if code in _USER_CODES:
        return UserError(details)
    if code is grpc.StatusCode.UNAUTHENTICATED:
        return UserError(details, hint="Put a valid token into CSAUTH_TOKEN.")
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return ClusterError(f"{where} did not answer in time.", hint="Try again in a moment.")
    if code in _CLUSTER_CODES:
        return ClusterError(
            f"{where} is unavailable: {details}",
            hint=f"Check that it is up and that {access.source} has its address and certificate."
            + _proxy_hint(access, os.environ),
        )
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return InternalError(
            f"{where} does not know this command: {details}",
            hint="Compare the versions in `csctl get version`.",
        )
    return InternalError(
        f"{where} failed with {code.name}: {details}", hint="Its log has the reason."
    )


def _proxy_hint(access: ClusterAccess, environ: Mapping[str, str]) -> str:
    """Return what to try where the call has gone through a proxy; nothing where it has not."""
    variable = next((name for name in _PROXIES if environ.get(name)), "")
    if not variable or access.is_loopback:
        return ""
    host = bare_host(access.server.rpartition(":")[0])
    return (
        f" It is called through the proxy of {variable}, {environ[variable]}; to call it directly, "
        f"add {host} to no_proxy."
    )


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?", "`")) else f"{text}."
