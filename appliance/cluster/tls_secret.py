"""Reads, writes and removes a TLS Secret of Kubernetes; decides nothing."""

import base64
from collections.abc import Mapping

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

from appliance.core.errors import ClusterError, UserError

_ABSENT = 404


class TlsSecret:
    """The Secret that holds the appliance's certificates.

    Args:
        namespace: Its namespace.
        name: Its name.

    Raises:
        UserError: This is neither a pod with a service account nor a machine with a KUBECONFIG.
    """

    def __init__(self, *, namespace: str, name: str) -> None:
        self._namespace, self._name = namespace, name
        try:
            config.load_incluster_config()  # type: ignore[no-untyped-call]
        except config.ConfigException:
            try:
                config.load_kube_config()  # type: ignore[no-untyped-call]
            except config.ConfigException as error:
                raise UserError(
                    f"No Kubernetes can be reached: {error}.",
                    hint="Run this in a pod with a service account, or set KUBECONFIG.",
                ) from error
        self._api = client.CoreV1Api()

    def read(self) -> Mapping[str, bytes] | None:
        """Return its contents; None if there is none."""
        try:
            secret = self._api.read_namespaced_secret(self._name, self._namespace)
        except ApiException as error:
            if error.status == _ABSENT:
                return None
            raise self._refused("read", error) from error
        return {key: base64.b64decode(text) for key, text in (secret.data or {}).items()}

    def write(self, contents: Mapping[str, bytes], *, exists: bool) -> None:
        """Make it, or put other contents into it.

        Args:
            contents: Bytes by key.
            exists: Whether there is one.
        """
        body = client.V1Secret(
            metadata=client.V1ObjectMeta(name=self._name),
            type="kubernetes.io/tls",
            data={key: base64.b64encode(value).decode() for key, value in contents.items()},
        )
        try:
            if exists:
                self._api.replace_namespaced_secret(self._name, self._namespace, body)
            else:
                self._api.create_namespaced_secret(self._namespace, body)
        except ApiException as error:
            raise self._refused("written", error) from error

    def remove(self) -> bool:
        """Remove it; return whether there was one."""
        try:
            self._api.delete_namespaced_secret(self._name, self._namespace)
        except ApiException as error:
            if error.status == _ABSENT:
                return False
            raise self._refused("removed", error) from error
        return True

    def _refused(self, what: str, error: ApiException) -> ClusterError:
        return ClusterError(
            f"Secret {self._namespace}/{self._name} could not be {what}: the API server answered "
            f"{error.status} {error.reason}.",
            hint="The service account needs get, create, update and delete of this Secret.",
        )
