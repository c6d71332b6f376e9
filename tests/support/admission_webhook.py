"""An admission webhook of somebody else's: a real HTTPS server that an API server asks."""

import base64
import datetime as dt
import json
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from appliance.cluster.kubernetes.api import ApiServer
from appliance.cluster.kubernetes.object_kinds import POD, Kind, Resource
from appliance.core.errors import ClusterError
from appliance.management.access.certificates import Issued, issue
from tests.support.ports import free_port
from tests.support.waiting import wait_until

WEBHOOK = Kind(
    group="admissionregistration.k8s.io",
    version="v1",
    plural="mutatingwebhookconfigurations",
    name="MutatingWebhookConfiguration",
    is_namespaced=False,
)

_PROBE = "probe"

# `Any`: JSON of the API.
Answer = dict[str, Any]
Review = Callable[[Resource], Answer]
"""From a pod that is to be created to the answer about it, without its uid."""


def patched(*operations: Answer) -> Answer:
    """Let a pod in, changed by operations of a JSON patch."""
    patch = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": patch}


@contextmanager
def webhook_of_pods(
    admin: ApiServer, directory: Path, review: Review | None
) -> Iterator[Callable[[], None]]:
    """Have the pods of the administrator's namespace reviewed; yield what ends that.

    Args:
        admin: The cluster, and the namespace.
        directory: For the webhook's certificate.
        review: Answers; None for a webhook that does not.
    """
    issued = issue(("localhost",), dt.datetime.now(dt.UTC))
    port = free_port()
    name = f"test-{admin.namespace}"
    with _server(directory, issued, port, review or (lambda _: {})) as calls:
        if review is None:
            port = free_port()
        admin.create(WEBHOOK, _configuration(name, admin.namespace, port, issued.authority))
        try:
            wait_until(lambda: _is_asked(admin, calls), seconds=120, what="an API server that asks")

            def end() -> None:
                if admin.delete(WEBHOOK, name):
                    wait_until(
                        lambda: not _is_asked(admin, calls), seconds=120, what="the webhook's end"
                    )

            yield end
        finally:
            admin.delete(WEBHOOK, name)


def _configuration(name: str, namespace: str, port: int, authority: bytes) -> Resource:
    bundle = base64.b64encode(authority).decode()
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    webhook = {
        "name": f"{name}.site.example",
        "clientConfig": {"url": f"https://localhost:{port}/", "caBundle": bundle},
        "rules": [{**rule, "operations": ["CREATE"], "scope": "Namespaced"}],
        "namespaceSelector": {"matchLabels": {"reviewed": namespace}},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "timeoutSeconds": 5,
        "failurePolicy": "Fail",
    }
    return {"metadata": {"name": name}, "webhooks": [webhook]}


def _is_asked(admin: ApiServer, calls: Sequence[str]) -> bool:
    """Whether the server asks the webhook now."""
    before = len(calls)
    spec = {"automountServiceAccountToken": False, "containers": [{"name": "a", "image": "a"}]}
    path = f"{POD.path(admin.namespace)}?dryRun=All"
    try:
        admin.impatient(30)._call("POST", path, body={"metadata": {"name": _PROBE}, "spec": spec})
    except ClusterError as error:
        return "webhook" in error.message
    return len(calls) > before


@contextmanager
def _server(directory: Path, issued: Issued, port: int, review: Review) -> Iterator[list[str]]:
    calls: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]
            calls.append(asked["uid"])
            is_probe = asked["object"]["metadata"]["name"] == _PROBE
            answer = {"allowed": True} if is_probe else review(asked["object"])
            response = {"uid": asked["uid"], **answer}
            body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
            data = json.dumps({**body, "response": response}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    for file, content in (("cert", issued.certificate), ("key", issued.key)):
        (directory / f"webhook.{file}").write_bytes(content)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "webhook.cert", directory / "webhook.key")
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield calls
    finally:
        server.shutdown()
        server.server_close()
        thread.join(30)
