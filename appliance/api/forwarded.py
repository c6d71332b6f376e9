"""From where a request comes that a trusted proxy has passed on.

A header is believed if it comes from an address of `appliance up --trusted-proxy`, and from nobody
else. It says where a request comes from, so that limits by address hold for whoever is behind the
proxy; whose it is, a token says.
"""

from collections.abc import Iterable, Sequence

from appliance.wire.connections.accepted import Accepted
from appliance.wire.networks import Address, Network, address_of, is_of

HEADER = "x-forwarded-for"


def passed_on(connection: Accepted, values: Iterable[str], proxies: Sequence[Network]) -> Accepted:
    """Return the connection of a request's sender.

    Each proxy adds the address that it was called from at the end. So the last address that is no
    proxy's is the sender's; what stands before it is whatever the sender wrote.

    Args:
        connection: The connection that the request came by.
        values: The request's headers of the name `HEADER`, in their order.
        proxies: Networks of those whose headers are believed.
    """
    if not is_of(address_of(connection.host), proxies):
        return connection
    host = connection.host
    for text in reversed(",".join(values).split(",")):
        address = _sender(text.strip())
        if address is None:
            break
        host = str(address)
        if not is_of(address, proxies):
            break
    return Accepted(host=host, is_local=False)


def _sender(text: str) -> Address | None:
    """Return an address that may have a port behind it; None if it is none."""
    host = text
    if text.startswith("["):
        host = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        host = text.partition(":")[0]
    return address_of(host)
