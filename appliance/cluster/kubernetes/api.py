"""Calls to a Kubernetes API server: one namespace, JSON in and out, errors of our own.

The `kubernetes` package finds the server, authenticates and holds the connections; its generated
classes are not used, since they know neither our kinds nor fields newer than they are. Calls that
may succeed later are retried for a while. A missing object is no error: the answer is `None`, or
False.
"""

import http.client
import json
import logging
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import urllib3

from appliance.cluster.kubernetes.object_kinds import Kind, Resource, version_of
from appliance.core.errors import ClusterError

if TYPE_CHECKING:  # a tenth of management's imports, and needed on Kubernetes alone
    from kubernetes import client

logger = logging.getLogger(__name__)

MERGE_PATCH = "application/merge-patch+json"

_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_TOKEN = _SERVICE_ACCOUNT / "token"
_CALL_SECONDS = 10.0
_PAUSES_SECONDS = (0.1, 0.3, 1.0, 2.0)

_NOT_NOW = frozenset(
    {
        http.HTTPStatus.TOO_MANY_REQUESTS,
        http.HTTPStatus.INTERNAL_SERVER_ERROR,
        http.HTTPStatus.BAD_GATEWAY,
        http.HTTPStatus.SERVICE_UNAVAILABLE,
        http.HTTPStatus.GATEWAY_TIMEOUT,
    }
)
_NO_RIGHT = re.compile(r" cannot \w+ resource ")
"""What the server says to an account without the right, and admission never."""

_DENIED = re.compile(r" denied (the )?request")
"""What it says of webhooks and of ValidatingAdmissionPolicies."""

_NO_WEBHOOK = "failed calling webhook"

_MAY_NOT = "The chart's role has every right that is needed; see helm/wsc-appliance."

_WATCH_SECONDS = 25
"""The server ends a watch after so long; the next one goes on where it stopped."""

_SILENCE_SECONDS = 35.0
"""A watch that says nothing, not even its end, for so long has lost its server."""

_POOL_CONNECTIONS = 16
_LEADING_DIGITS = re.compile(r"[0-9]+")


class ApiError(ClusterError):
    """The API server refused a call, or could not be reached.

    Args:
        message: What was refused, and why.
        status: HTTP status; 0 if there was no answer.
        reason: Why, in the server's own words; empty if it gave none.
    """

    def __init__(self, message: str, *, status: int, reason: str = "") -> None:
        self.status, self.reason = status, reason
        super().__init__(message, hint=_MAY_NOT if self.is_unauthorized else "")

    @property
    def is_unauthorized(self) -> bool:
        """Whether we may not, until somebody gives us the right."""
        return self.status == http.HTTPStatus.FORBIDDEN and not self.is_admission

    @property
    def is_admission(self) -> bool:
        """Whether we may, and a rule of the namespace (a quota, a policy) is against it.

        Webhooks and policies choose the status with which they deny.
        """
        is_forbidden = self.status == http.HTTPStatus.FORBIDDEN
        is_rule = is_forbidden and bool(self.reason) and not _NO_RIGHT.search(self.reason)
        return is_rule or bool(_DENIED.search(self.reason))

    @property
    def is_refusal(self) -> bool:
        """Whether the object is not taken as it is: by a rule, or as invalid.

        Or a webhook that the server must ask does not answer, of which it says 500.
        """
        is_invalid = self.status == http.HTTPStatus.UNPROCESSABLE_ENTITY
        return self.is_admission or is_invalid or _NO_WEBHOOK in self.reason

    @property
    def is_unavailable(self) -> bool:
        """Whether the server is away or asks to come again: later the same call may succeed."""
        return self.status == 0 or self.status in _NOT_NOW

    @property
    def is_conflict(self) -> bool:
        """Whether the object is there already, or is not as it was when we looked."""
        return self.status == http.HTTPStatus.CONFLICT

    @property
    def is_gone(self) -> bool:
        """Whether the version that a watch was to go on from is forgotten."""
        return self.status == http.HTTPStatus.GONE


class ApiServer:
    """The objects of one namespace, or, to read, of all.

    Args:
        api_client: Knows the server and who we are.
        namespace: Where our objects are; empty for everywhere.
        call_seconds: How long a call may take.
        pauses_seconds: Before each repetition of a call that failed for the server's sake.
        is_inside: Whether this process is a pod of that cluster.
    """

    def __init__(
        self,
        api_client: "client.ApiClient",
        namespace: str,
        *,
        call_seconds: float = _CALL_SECONDS,
        pauses_seconds: Sequence[float] = _PAUSES_SECONDS,
        is_inside: bool = False,
    ) -> None:
        self.namespace, self.is_inside = namespace, is_inside
        self._client = api_client
        self._call_seconds, self._pauses_seconds = call_seconds, pauses_seconds
        self._pause = threading.Event()

    @classmethod
    def connect(cls, namespace: str = "") -> "ApiServer":
        """Find the server: the cluster that this process runs in, else what KUBECONFIG names.

        Args:
            namespace: Empty for the one that the cluster or the kubeconfig says.

        Raises:
            ClusterError: There is none.
        """
        from kubernetes import client, config  # noqa: PLC0415

        settings = client.Configuration()
        try:
            found = _load(settings)
        except (config.ConfigException, OSError) as error:
            raise ClusterError(
                f"No Kubernetes cluster is known here: {error}.",
                hint="Set KUBECONFIG, or run in a pod with a service account.",
            ) from error
        settings.connection_pool_maxsize = _POOL_CONNECTIONS
        return cls(
            client.ApiClient(settings),
            namespace or found or "default",
            is_inside=_TOKEN.exists(),
        )

    def impatient(self, call_seconds: float) -> "ApiServer":
        """Return the same server for calls that are short and not repeated."""
        return ApiServer(self._client, self.namespace, call_seconds=call_seconds, pauses_seconds=())

    def in_namespace(self, namespace: str) -> "ApiServer":
        """Return the same server for the objects of another namespace; empty for all of them."""
        return ApiServer(
            self._client,
            namespace,
            call_seconds=self._call_seconds,
            pauses_seconds=self._pauses_seconds,
        )

    def close(self) -> None:
        """Close the connections."""
        self._pause.set()
        self._client.rest_client.pool_manager.clear()

    def version(self) -> tuple[int, int]:
        """Return the server's version, as in (1, 32)."""
        answer = self._call("GET", "/version")
        assert answer is not None
        # Providers add to the number, as in `28+`.
        major, minor = (_LEADING_DIGITS.match(str(answer[name])) for name in ("major", "minor"))
        if major is None or minor is None:
            raise ClusterError(f"The API server says that its version is {answer}.")
        return int(major.group()), int(minor.group())

    def versions_of(self, group: str) -> Sequence[str]:
        """Return the versions in which the server has an API group; none if it has not."""
        answer = self._call("GET", f"/apis/{group}", missing=True) or {}
        return [str(each["version"]) for each in answer.get("versions") or ()]

    def find(self, kind: Kind, name: str) -> Resource | None:
        """Return an object; None if there is none of that name."""
        return self._call("GET", kind.path(self.namespace, name), missing=True)

    def list(self, kind: Kind, selector: str = "") -> tuple[Sequence[Resource], str]:
        """Return the objects that a label selector picks, and the version to watch from."""
        query = {"labelSelector": selector} if selector else {}
        answer = self._call("GET", kind.path(self.namespace), query=query)
        assert answer is not None
        return answer.get("items") or (), version_of(answer)

    def create(self, kind: Kind, body: Resource, *, is_dry: bool = False) -> Resource:
        """Create an object.

        Args:
            is_dry: Only ask whether it could be created.

        Raises:
            ApiError: `is_conflict` if one of that name is there.
        """
        full = {"apiVersion": kind.api_version, "kind": kind.name, **body}
        query = {"dryRun": "All"} if is_dry else {}
        answer = self._call("POST", kind.path(self.namespace), query=query, body=full)
        assert answer is not None
        return answer

    def replace(self, kind: Kind, body: Resource) -> Resource | None:
        """Put an object in place of the version that it names; None if there is none any more.

        Raises:
            ApiError: `is_conflict` if somebody else has changed it meanwhile.
        """
        full = {"apiVersion": kind.api_version, "kind": kind.name, **body}
        path = kind.path(self.namespace, body["metadata"]["name"])
        return self._call("PUT", path, body=full, missing=True)

    def patch(
        self, kind: Kind, name: str, changes: Resource, *, subresource: str = ""
    ) -> Resource | None:
        """Merge changes into an object; None if there is none of that name.

        Changes that carry `metadata.resourceVersion` are for that version alone.

        Raises:
            ApiError: `is_conflict` if somebody else has changed it meanwhile.
        """
        path = kind.path(self.namespace, name, subresource)
        return self._call("PATCH", path, body=changes, content_type=MERGE_PATCH, missing=True)

    def delete(
        self, kind: Kind, name: str, *, uid: str = "", grace_seconds: int | None = None
    ) -> bool:
        """Ask for an object's end.

        Args:
            uid: Leave it alone unless it is this one; empty takes any.
            grace_seconds: Time for a pod to end in order; None for what the pod says.

        Returns:
            Whether there was one.
        """
        body: dict[str, Any] = {"propagationPolicy": "Background"}
        if grace_seconds is not None:
            body["gracePeriodSeconds"] = grace_seconds
        if uid:
            body["preconditions"] = {"uid": uid}
        try:
            path = kind.path(self.namespace, name)
            return self._call("DELETE", path, body=body, missing=True) is not None
        except ApiError as error:
            if error.is_conflict and uid:
                return False  # the one of that uid is gone
            raise

    def watch(self, kind: Kind, selector: str, version: str) -> "Watch":
        """Return what happens to objects after a version.

        Raises:
            ApiError: `is_gone` if the server does not know the version any more; also later.
        """
        query = {
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(_WATCH_SECONDS),
        }
        if selector:
            query["labelSelector"] = selector
        path = kind.path(self.namespace)
        timeout = urllib3.Timeout(connect=_CALL_SECONDS, read=_SILENCE_SECONDS)
        with _translated(f"watch of {kind.plural}"):
            response = self._request("GET", path, query, None, timeout=timeout)
            if response.status != http.HTTPStatus.OK:
                raise _refusal("watch", path, response.status, response.read())
        return Watch(response, path)

    def _call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] = {},
        body: Resource | None = None,
        content_type: str = "application/json",
        missing: bool = False,
    ) -> Resource | None:
        timeout = urllib3.Timeout(total=self._call_seconds)
        for pause in (*self._pauses_seconds, None):
            try:
                with _translated(f"{method} {path}"):
                    answer = self._request(
                        method, path, query, body, content_type=content_type, timeout=timeout
                    )
                    data = answer.read()
                    answer.release_conn()
                if missing and answer.status == http.HTTPStatus.NOT_FOUND:
                    return None
                if answer.status >= http.HTTPStatus.BAD_REQUEST:
                    raise _refusal(method, path, answer.status, data)
                result: Resource = json.loads(data)
                return result
            except ApiError as error:
                if pause is None or (error.status and error.status not in _NOT_NOW):
                    raise
                story = {"call": f"{method} {path}", "why": error.message}
                logger.info("Call is repeated", extra=story)
            self._pause.wait(pause)
        raise AssertionError("the last attempt returns or raises")

    def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Resource | None,
        *,
        content_type: str = "",
        timeout: urllib3.Timeout,
    ) -> urllib3.BaseHTTPResponse:
        settings = self._client.configuration
        headers = {"Accept": "application/json", "User-Agent": "wsc-appliance"}
        if token := settings.get_api_key_with_prefix("BearerToken", alias="authorization"):
            headers["Authorization"] = token
        if body is not None:
            headers["Content-Type"] = content_type
        answer: urllib3.BaseHTTPResponse = self._client.rest_client.pool_manager.request(
            method,
            settings.host + path + (f"?{urlencode(query)}" if query else ""),
            body=None if body is None else json.dumps(body).encode(),
            headers=headers,
            timeout=timeout,
            preload_content=False,
            retries=False,
        )
        return answer


class Watch:
    """News of some objects, until the server ends the stream.

    Args:
        response: The stream.
        path: What is watched, for messages.
    """

    def __init__(self, response: urllib3.BaseHTTPResponse, path: str) -> None:
        self._response, self._path = response, path

    def __iter__(self) -> Iterator[tuple[str, Resource]]:
        """Yield what happened, and the object; see `ApiServer.watch` for errors."""
        with _translated(f"watch of {self._path}"):
            try:
                for line in _lines(self._response):
                    yield _news(line, self._path)
            except ValueError as error:  # cut off within a line, or stopped by us
                raise ApiError(f"The watch of {self._path} is garbled.", status=0) from error
            finally:
                self._response.close()

    def stop(self) -> None:
        """Let whoever reads go; in another thread."""
        with suppress(OSError, RuntimeError, ValueError):  # it ends by itself meanwhile
            self._response.shutdown()


def _load(settings: "client.Configuration") -> str:
    """Fill in where the server is, and return the namespace that is said with it."""
    from kubernetes import config  # noqa: PLC0415

    # The package says that it is typed, and these functions are not.
    if _TOKEN.exists():
        config.load_incluster_config(settings)  # type: ignore[no-untyped-call]
        settings.proxy = None  # whatever the pod's variables say: none leads to where we are
        return (_SERVICE_ACCOUNT / "namespace").read_text().strip()
    config.load_kube_config(client_configuration=settings)  # type: ignore[no-untyped-call]
    _, active = config.list_kube_config_contexts()  # type: ignore[no-untyped-call]
    return str(active["context"].get("namespace", ""))


@contextmanager
def _translated(what: str) -> Iterator[None]:
    try:
        yield
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise ApiError(
            f"The Kubernetes API did not answer to {what}: {error}.", status=0
        ) from error


def _refusal(method: str, path: str, status: int, data: bytes) -> ApiError:
    answer: Resource = {}
    try:
        answer = json.loads(data)
        reason = answer.get("message", "")
    except (ValueError, AttributeError):
        reason = data[:200].decode(errors="replace")
    causes = (answer.get("details") or {}).get("causes") or ()
    if any(cause.get("field") == "metadata.uid" for cause in causes):
        status = http.HTTPStatus.CONFLICT  # a patch for an object that another has followed
    message = f"The Kubernetes API refused {method} {path} ({status}): {reason}."
    return ApiError(message, status=status, reason=str(reason))


def _lines(response: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    rest = b""
    for part in response.stream(amt=None):
        *lines, rest = (rest + part).split(b"\n")
        yield from lines


def _news(line: bytes, path: str) -> tuple[str, Resource]:
    event = json.loads(line)
    if event["type"] == "ERROR":
        status = event["object"]
        raise _refusal("watch", path, int(status.get("code", 0)), json.dumps(status).encode())
    return event["type"], event["object"]
