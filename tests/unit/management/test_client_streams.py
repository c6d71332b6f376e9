"""What the client's streams are told, by how sure it is who is at their other end."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from appliance.core.cluster.access import Principal, Target, UserRole
from appliance.core.cluster.records import User
from appliance.core.errors import ForbiddenError
from appliance.core.ids import JobId
from appliance.management.access.authorization import Access, act_as, open_access
from appliance.management.access.tokens import Minted
from appliance.management.changes.watch import JobWatch
from appliance.management.jobs.job_service import Ingress
from appliance.management.rpc.client.client_streams import ClientStreams, told
from appliance.management.rpc.client.lease_beats import Presence, Standing, standing
from appliance.management.rpc.connections import RECENT_SECONDS, Connections, Proof
from appliance.storage.engine.database import Database
from tests.support.clock import FakeClock

ADA = Principal(user=User(uid=1000, gid=100, name="ada"))
BOB = Principal(user=User(uid=1001, gid=100, name="bob"))
ADMIN = Principal(user=User(uid=0, gid=0, name="root"), role=UserRole.CLUSTER_ADMIN)
JOB = Target(kind="job", name="wsjob-1", owner=ADA.user)
PEER = "ipv4:10.0.0.1:40000"
READY = Ingress(
    message="ready",
    is_scheduled=True,
    is_ready=True,
    service_address="localhost:1",
    service_authority="secret",
)
FAILED = Ingress(message="why", is_scheduled=True, has_failed=True)
QUEUED = Ingress(message="place 3", is_scheduled=False)


def test_only_who_has_proved_it_is_told_the_address() -> None:
    assert told(READY, Standing.PROVED) == READY
    for unsure in (Standing.LIKELY, Standing.UNKNOWN):
        less = told(READY, unsure)
        assert (less.is_scheduled, less.is_final) == (True, False)  # it asks for events, and waits
        assert (less.service_address, less.service_authority) == ("", "")


def test_nobody_in_particular_is_told_no_reasons() -> None:
    for ingress in (FAILED, QUEUED):
        assert told(ingress, Standing.LIKELY) == ingress
        less = told(ingress, Standing.UNKNOWN)
        assert less.message != ingress.message
        assert less.has_failed == ingress.has_failed
        assert less.is_scheduled == ingress.is_scheduled


def test_a_stream_of_somebody_else_is_refused() -> None:
    assert standing(ADA, None, JOB) is Standing.PROVED
    assert standing(ADMIN, None, JOB) is Standing.PROVED
    assert standing(None, ADA, JOB) is Standing.LIKELY
    assert standing(None, None, JOB) is Standing.UNKNOWN
    for sure, likely in ((BOB, None), (None, BOB), (BOB, ADA)):
        with pytest.raises(ForbiddenError, match="attach-job"):
            standing(sure, likely, JOB)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def in_loop() -> Iterator[Callable[[Callable[[], None]], None]]:
    def run(check: Callable[[], None]) -> None:
        async def main() -> None:
            check()

        asyncio.run(main())

    return run


def test_what_was_proved_before_a_stream_opened_is_a_guess_for_some_seconds(clock, in_loop) -> None:
    def check() -> None:
        connections = Connections(clock)
        connections.proved(PEER, ADA)
        with connections.stream(PEER, asyncio.Event()) as proof:
            assert (proof.proved, proof.likely) == (None, ADA)
        clock.advance(RECENT_SECONDS + 1)
        with connections.stream(PEER, asyncio.Event()) as proof:
            assert (proof.proved, proof.likely) == (None, None)

    in_loop(check)


def test_what_is_proved_while_a_stream_is_open_holds_as_long_as_one_is(clock, in_loop) -> None:
    def check() -> None:
        connections, event = Connections(clock), asyncio.Event()
        with connections.stream(PEER, event) as first:
            connections.proved(PEER, ADA)
            clock.advance(10 * RECENT_SECONDS)
            with connections.stream(PEER, event) as second:
                assert first.proved == second.proved == ADA
        with connections.stream(PEER, event) as later:  # its port may be another user's by now
            assert (later.proved, later.likely) == (None, ADA)
            connections.proved(PEER, BOB)
            assert later.proved == BOB

    in_loop(check)


def test_a_waiting_stream_is_woken_by_a_proof_of_its_own_connection() -> None:
    async def main() -> None:
        connections, event = Connections(FakeClock()), asyncio.Event()
        with connections.stream(PEER, event) as proof:
            connections.proved("ipv4:10.0.0.1:40001", ADA)
            await asyncio.sleep(0)
            assert not event.is_set()
            await asyncio.to_thread(connections.proved, PEER, ADA)
            await asyncio.wait_for(event.wait(), 30)
            assert isinstance(proof, Proof)
            assert proof.proved == ADA

    asyncio.run(main())


def test_a_client_that_is_not_seen_lives_for_ten_leases(clock) -> None:
    presence = Presence(clock, lease_seconds=30)
    assert presence.is_recent("wsjob-1")  # after a restart nobody has been seen
    clock.advance(299)
    assert presence.is_recent("wsjob-1")
    clock.advance(2)
    assert not presence.is_recent("wsjob-1")
    presence.seen("wsjob-1")
    assert presence.is_recent("wsjob-1")


class OneJob:
    """A job of ada's that runs at its second look; what a stream asks of `JobService`."""

    def __init__(self, between: Callable[[], object]) -> None:
        self._ingresses, self._between = iter((QUEUED, READY)), between

    async def look(self, question, *arguments):
        return question(*arguments)

    def load(self, _: JobId):
        return SimpleNamespace(id="wsjob-1", user=ADA.user, session="s", held_by="")

    def ingress(self, _: JobId) -> Ingress:
        ingress = next(self._ingresses)
        if ingress is READY:
            return ingress
        self._between()
        return ingress

    def has_lease(self, _: str) -> bool:
        return True


def access_of(path: Path) -> Access:
    database = Database.open_sqlite(path / "state.db")
    return open_access(path, database, FakeClock(), needs_token=True)


def lose_role(access: Access, _: Minted) -> None:
    access.change_account("ops", role=UserRole.USER)


def lose_token(access: Access, minted: Minted) -> None:
    access.tokens.revoke(minted.record.id)


def lose_account(access: Access, _: Minted) -> None:
    access.delete_account("ops")


@pytest.mark.parametrize("lose", [lose_role, lose_token, lose_account])
@pytest.mark.parametrize("has_own_proof", [False, True])
def test_a_stream_opened_before_a_right_was_lost_is_not_told_the_address(
    tmp_path: Path, lose: Callable[[Access, Minted], None], *, has_own_proof: bool
) -> None:
    access = access_of(tmp_path)
    access.create_account("ops", uid=1002, gid=100, role=UserRole.CLUSTER_ADMIN)
    minted = access.tokens.mint("ops")
    admin = access.identify(User(), minted.text, None)

    async def main() -> list[Ingress]:
        connections, watch = Connections(FakeClock()), JobWatch()
        watch.bind(asyncio.get_running_loop())

        def between() -> None:
            lose(access, minted)
            watch.notify(JobId("wsjob-1"))

        streams = ClientStreams(OneJob(between), watch, connections, None, access.still)
        act_as(admin if has_own_proof else None)
        heard = []
        with connections.stream(PEER, asyncio.Event()), contextlib.suppress(ForbiddenError):
            connections.proved(PEER, admin)
            async with asyncio.timeout(60):
                async for ingress, _ in streams.ingress(JobId("wsjob-1"), PEER):
                    heard.append(ingress)
                    if len(heard) == 2:
                        break
        return heard

    assert all(not each.service_authority for each in asyncio.run(main()))
