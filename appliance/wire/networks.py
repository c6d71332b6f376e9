"""Addresses and networks of callers, as texts name them."""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


def address_of(host: str) -> Address | None:
    """Return the address that a text is, IPv4 where IPv6 only wraps it; None if it is none."""
    try:
        address = ip_address(host)
    except ValueError:
        return None
    return (isinstance(address, IPv6Address) and address.ipv4_mapped) or address


def is_of(address: Address | None, networks: Sequence[Network]) -> bool:
    """Whether an address belongs to one of some networks."""
    return address is not None and any(address in network for network in networks)
