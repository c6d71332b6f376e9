"""The listener through which pods on other nodes and management reach each other.

Every job has a key of its own. A caller proves that it knows the key of the job that it names, and
then reaches the internal service that the pods of this node reach by a Unix socket.
"""

from pathlib import Path

from appliance.core.clock import Clock
from appliance.core.ids import JobId
from appliance.core.pods.pod_spec import MANAGEMENT
from appliance.management.access.stream_secrets import job_key
from appliance.streams.handshake import Message
from appliance.streams.network.options import NetworkOptions
from appliance.streams.network.server import NetworkServer
from appliance.streams.network.tunnel import CONTROL, TunnelService


class JobKeys:
    """What the nodes of a job prove themselves with.

    Args:
        secret: What the keys are made from.
        identity: File with the identity for encrypted connections; empty for plain ones.
    """

    def __init__(self, secret: bytes, identity: str) -> None:
        self._secret = secret
        self.identity = Path(identity) if identity else None

    def options_of(self, job: JobId) -> NetworkOptions:
        """Return how the nodes of a job speak to each other."""
        return NetworkOptions(key=self._key(job), identity=self.identity)

    def key_of(self, hello: Message) -> bytes:
        """Return the key that a client has to know."""
        return self._key(JobId(str(hello.get("job"))))

    def text_of(self, job: JobId) -> str:
        """Return the key of a job as its pods receive it, in hexadecimal digits."""
        return job_key(self._secret, job)

    def _key(self, job: JobId) -> bytes:
        return self.text_of(job).encode()


def open_inner_listener(
    host: str, port: int, target: str, keys: JobKeys, clock: Clock
) -> NetworkServer:
    """Listen for the pods of other nodes.

    Args:
        host: An address of this node, or a name of it by which others know it.
        port: Where; 0 for any free port.
        target: gRPC target of the inner service.
        keys: What pods prove themselves with.

    Raises:
        ClusterError: This node cannot listen there.
    """
    options = NetworkOptions(host=host, identity=keys.identity)
    listener = NetworkServer(options, owner=MANAGEMENT, clock=clock, port=port, key_of=keys.key_of)
    listener.offer(CONTROL, TunnelService(target))
    return listener
