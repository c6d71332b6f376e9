"""Texts of the form host:port, where an IPv6 address is in brackets: `[fd00::1]:9000`.

Within the appliance a host is a name or a bare address. It has brackets only in such a text, which
gRPC, URLs and the client read. Everything that makes or takes one apart asks here.
"""

from ipaddress import IPv6Address, ip_address

from appliance.core.integers import find_integer

_MAX_PORT = 65535

IPV6_FORM = "Write an IPv6 address in brackets, as in [fd00::1]:9000."
"""Hint of errors about such a text."""


def host_and_port(host: str, port: int) -> str:
    """Return host:port.

    Args:
        host: A name or an address, with or without brackets.
        port: 0 to 65535.
    """
    bare = bare_host(host)
    return f"[{bare}]:{port}" if ":" in bare else f"{bare}:{port}"


def split_address(text: str) -> tuple[str, int]:
    """Return the host, without brackets, and the port of host:port.

    Raises:
        ValueError: It is of another form. So is an IPv6 address without brackets, of which nobody
            can tell whether its last digits are a port.
    """
    host, colon, digits = text.rpartition(":")
    bare = bare_host(host)
    port = find_integer(digits, _MAX_PORT)
    is_host = bool(bare) and (":" in bare) == (bare != host) and not {"[", "]"} & set(bare)
    if not (colon and is_host) or port is None:
        raise ValueError(f"{text!r} is no host:port")
    return bare, port


def bare_host(host: str) -> str:
    """Return a host without the brackets that an IPv6 address may have."""
    return host[1:-1] if host.startswith("[") and host.endswith("]") else host


def is_same_host(one: str, other: str) -> bool:
    """Whether two texts are the same address, however it is written, or the same name."""
    try:
        return ip_address(bare_host(one)) == ip_address(bare_host(other))
    except ValueError:
        return one.casefold() == other.casefold()


def is_loopback(host: str) -> bool:
    """Whether a host is an address or a name of whoever asks for it (RFC 6761 for names)."""
    try:
        address = ip_address(bare_host(host))
    except ValueError:
        return host.casefold().rstrip(".").rpartition(".")[2] == "localhost"
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def is_ipv6(host: str) -> bool:
    """Whether a host is an IPv6 address and no name, with or without brackets and a zone."""
    try:
        return ip_address(bare_host(host)).version == 6
    except ValueError:
        return False
