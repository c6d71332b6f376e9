"""A port for clients on loopback is taken at both addresses that the name localhost stands for."""

import errno
import socket
from contextlib import ExitStack, suppress

import pytest

from appliance.wire.connections import client_ports
from appliance.wire.connections.client_ports import PortTakenError, bind_for_clients

BOTH = ("127.0.0.1", "::1")
OTHER = dict(zip(BOTH, reversed(BOTH), strict=True))
FAMILIES = {"127.0.0.1": socket.AF_INET, "::1": socket.AF_INET6}


def has_both() -> bool:
    with suppress(OSError), socket.create_server(("::1", 0), family=socket.AF_INET6):
        return True
    return False


needs_both = pytest.mark.skipif(not has_both(), reason="this machine has no IPv6 loopback")


def intruder(host: str, port: int) -> OSError | None:
    """Return why somebody else cannot listen there, whatever he asks the kernel for."""
    with socket.socket(FAMILIES[host]) as own:
        own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            own.bind((host, port))
            own.listen()
        except OSError as error:
            return error
    return None


@needs_both
@pytest.mark.parametrize("host", BOTH)
def test_nobody_else_listens_at_the_other_loopback_address_of_our_port(host: str) -> None:
    with ExitStack() as stack:
        bound = [stack.enter_context(each) for each in bind_for_clients(host, 0)]
        for each in bound:
            each.listen()
        ports = {each.getsockname()[1] for each in bound}
        assert [each.getsockname()[0] for each in bound] == [host, OTHER[host]]
        (port,) = ports
        for address in BOTH:
            refused = intruder(address, port)
            assert refused is not None, f"somebody else listens at {address}"
            assert refused.errno == errno.EADDRINUSE


@needs_both
@pytest.mark.parametrize("host", BOTH)
def test_a_port_that_somebody_has_at_the_other_address_is_not_taken_at_ours(host: str) -> None:
    family = FAMILIES[OTHER[host]]
    with socket.create_server((OTHER[host], 0), family=family) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortTakenError) as refused:
            bind_for_clients(host, port)
        assert (refused.value.host, refused.value.errno) == (OTHER[host], errno.EADDRINUSE)
        with socket.socket(FAMILIES[host]) as free:
            free.bind((host, port))  # nothing of the attempt is left


@needs_both
def test_of_any_port_one_is_found_that_is_free_at_both(monkeypatch: pytest.MonkeyPatch) -> None:
    bind, tried = client_ports._bound, []

    def taken_at_first(host: str, port: int, **options: bool) -> socket.socket:
        tried.append(host)
        if host == "::1" and tried.count("::1") < 3:
            raise PortTakenError(host, OSError(errno.EADDRINUSE, "taken"))
        return bind(host, port, **options)

    monkeypatch.setattr(client_ports, "_bound", taken_at_first)
    for each in bind_for_clients("127.0.0.1", 0):
        each.close()
    assert tried == ["127.0.0.1", "::1"] * 3


def test_a_machine_without_ipv6_has_one_address(monkeypatch: pytest.MonkeyPatch) -> None:
    bind = client_ports._bound

    def none_of_six(host: str, port: int, **options: bool) -> socket.socket:
        if ":" in host:
            raise PortTakenError(host, OSError(errno.EADDRNOTAVAIL, "not here"))
        return bind(host, port, **options)

    monkeypatch.setattr(client_ports, "_bound", none_of_six)
    (only,) = bind_for_clients("127.0.0.1", 0)
    only.close()
    with pytest.raises(PortTakenError):
        bind_for_clients("::1", 0)


def test_an_address_of_no_loopback_stands_for_itself() -> None:
    (only,) = bind_for_clients("0.0.0.0", 0)
    only.close()
