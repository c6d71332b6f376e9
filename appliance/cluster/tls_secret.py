"""Reads and writes a TLS Secret of Kubernetes; decides nothing."""

import base64
from collections.abc import Mapping

from appliance.cluster.kubernetes.api import ApiServer
from appliance.cluster.kubernetes.object_kinds import SECRET


class TlsSecret:
    """The Secret that holds the appliance's certificates.

    It talks to the API server as management does: the modules of the Kubernetes client for single
    kinds take longer to import than all that is done here.

    Raises:
        ClusterError: This is neither a pod with a service account nor a machine with a KUBECONFIG;
            also later, if the API server refuses a call.
    """

    def __init__(self, *, namespace: str, name: str) -> None:
        self._name = name
        self._api = ApiServer.connect(namespace)

    def read(self) -> Mapping[str, bytes] | None:
        """Return its contents; None if there is none."""
        secret = self._api.find(SECRET, self._name)
        if secret is None:
            return None
        return {key: base64.b64decode(text) for key, text in (secret.get("data") or {}).items()}

    def write(self, contents: Mapping[str, bytes], *, exists: bool) -> None:
        """Make it, or put other contents into it.

        Args:
            contents: Bytes by key.
            exists: Whether there is one.
        """
        body = {
            "metadata": {"name": self._name},
            "type": "kubernetes.io/tls",
            "data": {key: base64.b64encode(value).decode() for key, value in contents.items()},
        }
        if not exists or self._api.replace(SECRET, body) is None:
            self._api.create(SECRET, body)
