"""Which addresses the notification targets of users may have.

Whoever submits a job names its targets, and it is management that connects to them: from where it
runs, past firewalls, beside services that trust this machine. So a target is a public address,
unless an administrator allows its network. Its name is looked up once, and the connection is made
to the address that was checked, whatever the name means a moment later.
"""

import socket
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Network, ip_address

from appliance.wire.connection_owner import is_own_address
from appliance.wire.networks import Address, Network

_PUBLIC_6 = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")
_NOT_PUBLIC: tuple[Network, ...] = (
    IPv4Network("192.0.0.0/24"),  # for protocols; a cloud's service beside the machine (Oracle)
    IPv4Network("192.88.99.0/24"),  # relays that are no more
    IPv4Network("168.63.129.16/32"),  # a cloud's service beside the machine (Azure)
    IPv6Network("3fff::/20"),  # for documents
)
"""What Python, in some version that is in use, takes for public."""


class NotAllowedError(Exception):
    """A target has an address that targets of users may not have."""


def look_up(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a name, the preferred one first; raises `OSError`."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(ends[0]) for *_, ends in found]


class TargetAddresses:
    """Looks targets up and checks their addresses.

    Args:
        allowed: Networks that are allowed beside public addresses.
        resolve: Returns the addresses of a name and a port.
        is_own: Whether an address is one of this machine.
    """

    def __init__(
        self,
        allowed: Sequence[Network],
        resolve: Callable[[str, int], Sequence[str]] = look_up,
        is_own: Callable[[str], bool] = is_own_address,
    ) -> None:
        self._allowed, self._resolve, self._is_own = tuple(allowed), resolve, is_own

    def pin(self, host: str, port: int) -> str:
        """Return the address to connect to.

        Raises:
            NotAllowedError: One of the name's addresses may not be a target.
            OSError: There is no such name.
        """
        found = [ip_address(each.partition("%")[0]) for each in self._resolve(host, port)]
        if not found:
            raise OSError("The name has no address.")
        if not all(self._may_be_target(each) for each in found):
            raise NotAllowedError
        return str(found[0])

    def _may_be_target(self, address: Address) -> bool:
        meant = (address, *_embedded(address))
        if any(meant[-1] in network for network in self._allowed):
            return True
        return all(map(_is_public, meant)) and not any(self._is_own(str(each)) for each in meant)


def _is_public(address: Address) -> bool:
    if any(address in network for network in _NOT_PUBLIC):
        return False
    if isinstance(address, IPv4Address):
        return address.is_global and not address.is_multicast
    if address.ipv4_mapped is not None or address in _NAT64:
        return True  # as public as the address that it stands for
    return address in _PUBLIC_6 and address.is_global


def _embedded(address: Address) -> tuple[IPv4Address, ...]:
    """Return the IPv4 address that an address stands for, or by which it is reached."""
    if isinstance(address, IPv4Address):
        return ()
    if address in _NAT64:
        return (IPv4Address(address.packed[-4:]),)
    inner = address.ipv4_mapped or address.sixtofour
    return (inner,) if inner is not None else ()
