"""The part of a kubelet that the API server asks for the logs of pods, played."""

import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from appliance.cluster.kubernetes.api import ApiServer
from appliance.cluster.kubernetes.object_kinds import POD, Resource, name_of
from tests.support.fake_nodes import NODE

_NAME = "played-kubelet"


class PlayedLogs:
    """A node whose pods have logs.

    Args:
        admin: The cluster, as its administrator, in the namespace of the pods.

    Attributes:
        of_pods: What pods have printed, by name.
    """

    def __init__(self, admin: ApiServer) -> None:
        self._admin = admin
        self.of_pods: dict[str, str] = {}

    def take(self, pod: Resource) -> None:
        """Let a pod be on this node, unless it has one."""
        if not pod["spec"].get("nodeName"):
            target = {"apiVersion": "v1", "kind": "Node", "name": _NAME}
            path = POD.path(self._admin.namespace, name_of(pod), "binding")
            body = {"metadata": {"name": name_of(pod)}, "target": target}
            self._admin._call("POST", path, body=body, missing=True)

    @contextmanager
    def served(self, directory: Path) -> Iterator["PlayedLogs"]:
        """Answer the API server meanwhile; the certificate is kept in a directory."""
        server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*_certificate(directory))
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        self._admin.create(NODE, {"metadata": {"name": _NAME}})
        status = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": server.server_port}},
        }
        self._admin.patch(NODE, _NAME, {"status": status}, subresource="status")
        try:
            yield self
        finally:
            self._admin.delete(NODE, _NAME)
            server.shutdown()
            server.server_close()
            thread.join(30)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        logs = self.of_pods

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                _, asked, _, pod, *_ = self.path.partition("?")[0].split("/")
                is_known = asked == "containerLogs" and pod in logs
                self.send_response(200 if is_known else 404)
                self.end_headers()
                self.wfile.write(logs.get(pod, "").encode())

            def log_message(self, *_: object) -> None:
                pass

        return Handler


def _certificate(directory: Path) -> tuple[Path, Path]:
    """Return files of a certificate and its key; the API server does not check a kubelet's."""
    certificate, key = directory / "kubelet.crt", directory / "kubelet.key"
    subject = ("-subj", f"/CN={_NAME}", "-days", "2", "-out", str(certificate))
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", str(key), *subject],
        check=True,
        capture_output=True,
    )
    return certificate, key
