"""How this pod speaks to the pods of its job on other nodes."""

from dataclasses import dataclass
from pathlib import Path

from appliance.core.errors import InternalError


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkOptions:
    """Settings of the network transport, the same in every pod of a job.

    Attributes:
        host: Address at which this pod listens and is reached by the others.
        key: The job's secret; both ends of a connection prove that they know it.
        identity: PEM file with a key and its self-signed certificate, which both ends hold;
            connections are then encrypted (TLS 1.3). None sends plain text.
        is_one_sided: Whether a server with an identity wants none of its clients, since they know
            it by its fingerprint.
        fingerprint: SHA-256 of the certificate that a server has to show, as hexadecimal digits;
            empty unless this end knows a server so.
        chunk_bytes: Bytes that are received and summed at a time; what a megabyte saves in calls is
            more than what it loses in the nearest cache (measured).
        block_bytes: Bytes that are summed and sent at a time; 1 MB takes as long (measured).
        congestion_control: What the kernel's TCP goes by between two nodes of a cluster, if it has
            it and allows it; empty leaves it to the system. A system that is set to BBR, which
            paces by timers, made 3.1 GB/s on loopback for 0.46 processor seconds a gigabyte, with
            this 5.5 for 0.30 (measured).
        ping_seconds: An idle end says so often that it lives.
        silence_seconds: A connection on which nothing arrived for so long is given up and made
            anew; well above what a loaded machine or a burst of losses delays a ping.
        gone_seconds: A peer that could not be reached for so long fails the stream.
        connect_seconds: Limit of one attempt to connect, handshake included.
        retry_seconds: Pause between two attempts.
    """

    host: str = "127.0.0.1"
    key: bytes = b""
    identity: Path | None = None
    is_one_sided: bool = False
    fingerprint: str = ""
    chunk_bytes: int = 1 << 20
    block_bytes: int = 1 << 24
    congestion_control: str = "cubic"
    ping_seconds: float = 1.0
    silence_seconds: float = 10.0
    gone_seconds: float = 60.0
    connect_seconds: float = 3.0
    retry_seconds: float = 0.1

    def __post_init__(self) -> None:
        if not 0 < self.ping_seconds < self.silence_seconds < self.gone_seconds:
            raise InternalError(
                f"A ping every {self.ping_seconds:g} s, silence of {self.silence_seconds:g} s and "
                f"a limit of {self.gone_seconds:g} s must grow in this order."
            )
        if min(self.chunk_bytes, self.block_bytes) < 1:
            raise InternalError(
                f"Chunks of {self.chunk_bytes} bytes and blocks of {self.block_bytes} cannot carry "
                "anything."
            )
