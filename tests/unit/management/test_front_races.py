"""No call is ever executed with another identity than its connection's, whatever happens when.

Hypothesis opens connections of several users to both listeners (gRPC behind the front, REST), sends
calls that claim to be anybody's, ends connections in every way, has others get their ports at once,
and decides when the front's event loop takes a step, when the services accept and when they read.
The sockets are real; what is played is whose the kernel says they are.
"""

import asyncio
import socket
import struct
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    rule,
    run_state_machine_as_test,
)

from appliance.core.cluster.identity import ROOT, LocalAccount, user_of_peer
from appliance.core.cluster.records import User
from appliance.core.errors import WscError
from appliance.wire.connection_owner import Endpoint, Owner
from appliance.wire.connections.accepted import Accepted, AcceptedConnections, accepted
from appliance.wire.connections.forwarder import Destination, Forwarder

ADA, BOB = 1000, 1001
RESET = struct.pack("ii", 1, 0)
SETTLE_STEPS = 12
UIDS = st.sampled_from([ADA, ROOT, BOB])
CLAIMS = st.sampled_from([-1, ROOT, ADA, BOB])
LISTENERS = st.sampled_from(["front", "rest"])
WAYS = st.sampled_from(["reset", "close", "half"])
STEPS = st.integers(0, 8)


@dataclass(eq=False)
class Caller:
    """One connection of a user.

    Attributes:
        number: By which its calls name it.
        uid: Whose it is.
        socket: Its end.
        ends: Its address and the listener's.
        claims: What its calls claimed, in order.
        is_open: Whether it is whole.
    """

    number: int
    uid: int
    socket: socket.socket
    ends: tuple[Endpoint, Endpoint]
    claims: list[int] = field(default_factory=list)
    is_open: bool = True


@dataclass(eq=False)
class Served:
    """A connection that a service has accepted: how it knows whose it is, and what came."""

    socket: socket.socket
    peer: str
    kept: Accepted | None
    text: bytes = b""


class FrontRaces(RuleBasedStateMachine):
    """See the module."""

    callers = Bundle("callers")
    ended = Bundle("ended")

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.loop = asyncio.new_event_loop()
        self.known = AcceptedConnections()
        self.all: list[Caller] = []
        self.served: list[Served] = []
        self.executed: list[tuple[int, int]] = []
        self.steals_next = self.has_hung_up = False
        self.grpc = socket.socket(socket.AF_UNIX)
        path = str(Path(self.directory.name) / "grpc.sock")
        self.grpc.bind(path)
        self.rest = socket.create_server(("127.0.0.1", 0))
        self.front = socket.create_server(("127.0.0.1", 0))
        self.listeners = {"front": self.front.getsockname(), "rest": self.rest.getsockname()}
        for listener in (self.grpc, self.rest):
            listener.listen()
            listener.setblocking(False)

        async def to_grpc() -> Destination:
            return Destination(address=path)

        see = partial(accepted, find=self.kernel)
        self.forwarder = Forwarder(lambda *_: to_grpc(), self.known, see)
        self.loop.run_until_complete(self.forwarder.serve([self.front]))

    def kernel(self, there: Endpoint, here: Endpoint) -> Owner | None:
        """Say whose the socket is that has this port now, to this listener."""
        if self.steals_next:
            self.steals_next = False
            for each in self.at(there, here):
                self.end(each, "reset")
                self.open(ROOT, (here.host, here.port), there.port)
        return next((Owner(each.uid, -1) for each in self.at(there, here)), None)

    def at(self, there: Endpoint, here: Endpoint) -> list[Caller]:
        """Return whose connection has these ends."""
        return [each for each in self.all if each.is_open and each.ends == (there, here)]

    def open(self, uid: int, listener: tuple[str, int], port: int = 0) -> Caller | None:
        """Connect as a user; from a port, if it is free."""
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            connection.bind(("127.0.0.1", port))
            connection.settimeout(1)
            connection.connect(listener)
        except OSError:
            connection.close()
            return None
        ends = Endpoint(*connection.getsockname()), Endpoint(*listener)
        caller = Caller(len(self.all), uid, connection, ends)
        self.all.append(caller)
        return caller

    def end(self, caller: Caller, how: str) -> None:
        """End a connection in one of the ways there are."""
        caller.is_open = False  # half of one is no more owned, for the kernel
        with suppress(OSError):
            if how == "half":
                caller.socket.shutdown(socket.SHUT_WR)
                return
            if how == "reset":
                caller.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        caller.socket.close()

    @rule(
        target=callers,
        uid=UIDS,
        listener=LISTENERS,
        claims=st.lists(CLAIMS, max_size=3),
        count=STEPS,
    )
    def connect(self, uid: int, listener: str, claims: list[int], count: int) -> Caller:
        caller = self.open(uid, self.listeners[listener])
        assert caller is not None
        for claimed in claims:
            self.call(caller, claimed)
        self.step(count)
        return caller

    @rule(caller=callers, claims=CLAIMS)
    def send(self, caller: Caller, claims: int) -> None:
        self.call(caller, claims)

    def call(self, caller: Caller, claims: int) -> None:
        """Send a call that claims to be a user's."""
        if caller.is_open:
            caller.claims.append(claims)
            with suppress(OSError):  # the service has hung up
                caller.socket.send(f"{caller.number} {len(caller.claims) - 1}\n".encode())

    @rule(target=ended, caller=consumes(callers), how=WAYS, count=STEPS)
    def leave(self, caller: Caller, how: str, count: int) -> Caller:
        self.end(caller, how)
        self.step(count)
        return caller

    @rule(left=ended, uid=UIDS, listener=LISTENERS, claims=st.lists(CLAIMS, max_size=2))
    def take_port(self, left: Caller, uid: int, listener: str, claims: list[int]) -> None:
        caller = self.open(uid, self.listeners[listener], left.ends[0].port)
        for claimed in claims:
            if caller is not None:
                self.call(caller, claimed)

    @rule()
    def steal_port_while_the_kernel_is_asked(self) -> None:
        self.steals_next = True

    @rule(count=STEPS)
    def go_on(self, count: int) -> None:
        self.step(count)

    def step(self, count: int) -> None:
        """Let the front's event loop take so many steps."""
        for _ in range(count):
            self.loop.call_soon(self.loop.stop)
            self.loop.run_forever()

    @rule()
    def serve_grpc(self) -> None:
        with suppress(BlockingIOError):
            connection, peer = self.grpc.accept()
            name = peer[1:].decode() if isinstance(peer, bytes) else ""
            self.served.append(Served(connection, f"unix-abstract:{name}", None))
            connection.setblocking(False)

    @rule()
    def serve_rest(self) -> None:
        with suppress(BlockingIOError):
            connection, _ = self.rest.accept()
            whose = accepted(connection, find=self.kernel)
            self.served.append(Served(connection, "", whose))
            connection.setblocking(False)

    # No precondition asks for what has been accepted: that depends on the kernel's time.
    @rule(which=st.integers(0, 1 << 16))
    def read(self, which: int) -> None:
        if self.served:
            self.execute(self.served[which % len(self.served)])

    @rule(which=st.integers(0, 1 << 16))
    def hang_up(self, which: int) -> None:
        if self.served:
            self.served.pop(which % len(self.served)).socket.close()
            self.has_hung_up = True

    def execute(self, served: Served) -> None:
        """Execute the calls that a service has got by now."""
        with suppress(OSError):
            served.text += served.socket.recv(1 << 16)
        *lines, served.text = served.text.split(b"\n")
        for line in lines:
            number, index = map(int, line.split())
            caller = self.all[number]
            whose = served.kept if served.kept is not None else self.known.of_call(served.peer)
            claimed = User(uid=caller.claims[index], gid=caller.claims[index])
            with suppress(WscError):  # refused
                user = user_of_peer(
                    whose.uid,
                    claimed,
                    operator=User(uid=ROOT, gid=0, name="root"),
                    serves_all=True,
                    account_of=lambda uid: LocalAccount(name="x", gid=uid, groups=frozenset()),
                )
                may_be_anybody = caller.uid == ROOT
                assert whose.uid == caller.uid
                assert may_be_anybody or user.uid == caller.uid
                self.executed.append((number, index))

    def teardown(self) -> None:
        """Let everything come to rest: who is still there has had every call executed."""
        self.step(SETTLE_STEPS)  # the front is done before the services read
        for _ in range(SETTLE_STEPS):
            self.step(2)
            for _ in self.all:
                self.serve_grpc()
                self.serve_rest()
            for each in self.served:
                self.execute(each)
        still = [] if self.has_hung_up else [each for each in self.all if each.is_open]
        heard = set(self.executed)
        for each in still:
            for index, claimed in enumerate(each.claims):
                is_permitted = each.uid == ROOT or claimed in (-1, each.uid)
                assert ((each.number, index) in heard) is is_permitted
        for each in self.all:
            each.socket.close()
        self.loop.run_until_complete(self.forwarder.close())
        self.step(4)
        for each in self.served:
            each.socket.close()
        for each in (self.grpc, self.rest, self.front):
            each.close()
        self.step(4)
        self.loop.close()
        self.directory.cleanup()


def test_no_call_is_executed_with_another_identity_than_its_connections() -> None:
    run_state_machine_as_test(
        FrontRaces,
        settings=settings(max_examples=60, stateful_step_count=30, deadline=None),
    )
