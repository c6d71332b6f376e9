"""Elects one leader among several managements, with a Lease of the Kubernetes API.

The leader renews the lease. The others watch it, and take it when it has not changed for its own
length, measured by the watcher's clock from the last change that it saw, so clocks need not agree.
Every change names the version that was seen, so of two who take it one is refused. A leader that
cannot renew in time must end before another can begin: it gives up two thirds of the length after
it last asked for a renewal that came, and no call lasts beyond that moment. (The database refuses
whatever it might still write.)

Where there is one management, nobody else could lead while the server is away: it goes on, and has
lost its lead only if the server, when it is back, says that somebody else has it.
"""

import datetime as dt
import logging
import math
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from appliance.cluster.kubernetes.api import ApiError, ApiServer
from appliance.cluster.kubernetes.object_kinds import LEASE, Resource, version_of
from appliance.core.clock import Clock
from appliance.core.errors import ClusterError

logger = logging.getLogger(__name__)

_RENEWALS_PER_LEASE = 5.0
"""How often a lease is renewed in its length."""

_CALLS_PER_LEASE = 4.0
"""How many calls that time out, one after the other, its length has room for."""

_RETRIES_PER_LEASE = 20.0
"""How soon a renewal that failed is tried again, as a part of its length."""

_GIVES_UP_AFTER = 2.0 / 3.0
"""Of its length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What was seen of the lease, and when that was first so.

    Attributes:
        version: Its version; empty if there is no lease.
        holder: Who leads; empty for nobody.
        since_seconds: Monotonic time of the first look that found this version.
        seconds: Length of the lease, as its holder wrote.
    """

    version: str
    holder: str
    since_seconds: float
    seconds: float


def observe(
    lease: Resource | None, before: Observation | None, *, now_seconds: float
) -> Observation:
    """Return what an observation of the lease means, given the observation before it."""
    if lease is None:
        return Observation(version="", holder="", since_seconds=now_seconds, seconds=0.0)
    spec = lease.get("spec") or {}
    version = version_of(lease)
    is_news = before is None or before.version != version
    return Observation(
        version=version,
        holder=spec.get("holderIdentity") or "",
        since_seconds=now_seconds if is_news or before is None else before.since_seconds,
        seconds=float(spec.get("leaseDurationSeconds") or 0),
    )


def may_take(seen: Observation, identity: str, *, now_seconds: float) -> bool:
    """Whether the lease is to be had: nobody's, our own, or not renewed for its whole length."""
    if not seen.holder or seen.holder == identity:
        return True
    return now_seconds - seen.since_seconds > seen.seconds


def left_seconds(seen: Observation, identity: str, *, now_seconds: float) -> float:
    """Return for how long another's lease holds without news of it; 0 if nobody else has it."""
    if not seen.holder or seen.holder == identity:
        return 0.0
    return max(0.0, seen.seconds - (now_seconds - seen.since_seconds))


class Leadership:
    """One candidate.

    Args:
        api: Where the lease is.
        name: The lease's name.
        identity: The candidate's name; no other, and no earlier process, may have it.
        seconds: Length of the lease.
        on_lost: Called once, in a thread of its own, when the lead is lost; nothing may be done as
            the leader any more.
        is_alone: Whether there are no other candidates, so that a lead that cannot be renewed is
            kept.
        on_wait: Told, at each look, for how many seconds another's lease holds without news of it.
        labels: Labels of the lease.
    """

    def __init__(
        self,
        api: ApiServer,
        *,
        name: str,
        identity: str,
        seconds: float,
        clock: Clock,
        on_lost: Callable[[], None],
        is_alone: bool = False,
        on_wait: Callable[[float], None] = lambda _: None,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        self._api, self._name, self._identity = api, name, identity
        self._seconds, self._clock, self._on_lost = seconds, clock, on_lost
        self._is_alone = is_alone
        self._on_wait, self._labels = on_wait, labels or {}
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def acquire(self) -> bool:
        """Wait until this candidate leads, then keep renewing; False if `release` came first."""
        seen: Observation | None = None
        while not self._stopping.is_set():
            try:
                api = self._patient_for(self._seconds)
                lease = api.find(LEASE, self._name)
                now = self._clock.monotonic_seconds()
                if seen is None or seen.holder != _holder(lease):
                    logger.info("Lease is seen", extra={"holder": _holder(lease)})
                seen = observe(lease, seen, now_seconds=now)
                if may_take(seen, self._identity, now_seconds=now) and self._take(api, lease):
                    return self._lead(asked_at_seconds=now)
                self._on_wait(left_seconds(seen, self._identity, now_seconds=now))
            except ClusterError as error:
                logger.warning("Lease cannot be looked at", extra={"why": error.message})
            self._stopping.wait(self._seconds / _RENEWALS_PER_LEASE)
        return False

    def release(self) -> None:
        """Give the lead back, so that the next one need not wait; or wait for it no longer."""
        self._stopping.set()
        if self._thread is None:
            return
        self._thread.join()
        try:
            api = self._patient_for(self._seconds)
            lease = api.find(LEASE, self._name)
            if lease is not None and _holder(lease) == self._identity:
                api.replace(LEASE, self._changed(lease, holder=""))
        except ClusterError:
            logger.warning("Lease is not given back; it runs out", exc_info=True)

    def _patient_for(self, seconds: float) -> ApiServer:
        """Return the server for calls that are not repeated and take at most so long."""
        return self._api.impatient(min(seconds, self._seconds / _CALLS_PER_LEASE))

    def _take(self, api: ApiServer, lease: Resource | None) -> bool:
        """Write ourselves into the lease as it was seen; False if somebody was faster."""
        try:
            if lease is None:
                api.create(LEASE, self._changed({"metadata": {"name": self._name}}))
                return True
            return api.replace(LEASE, self._changed(lease)) is not None
        except ApiError as error:
            if error.is_conflict:
                return False
            raise

    def _lead(self, *, asked_at_seconds: float) -> bool:
        """Renew what was asked for at that monotonic time; False if `release` came first."""
        logger.info("This management leads", extra={"identity": self._identity})
        self._thread = threading.Thread(
            target=self._renew, args=(asked_at_seconds,), name="leadership", daemon=True
        )
        self._thread.start()
        return not self._stopping.is_set()

    def _renew(self, asked_at_seconds: float) -> None:
        """Renew the lease, from the time on at which it was asked for, until the lead is lost."""
        gives_up_at = self._gives_up_at(asked_at_seconds)

        def remaining() -> float:
            return gives_up_at - self._clock.monotonic_seconds()

        pause = self._seconds / _RENEWALS_PER_LEASE
        while not self._stopping.wait(max(0.0, min(pause, remaining()))):
            if (left := remaining()) <= 0.0:
                logger.critical("Lease could not be renewed in time; another will lead")
                break
            pause = self._seconds / _RETRIES_PER_LEASE
            try:
                lease = self._patient_for(left).find(LEASE, self._name)
                if lease is not None and _holder(lease) not in ("", self._identity):
                    logger.critical("Another management leads", extra={"who": _holder(lease)})
                    break
                if (left := remaining()) <= 0.0:
                    continue
                asked_at_seconds = self._clock.monotonic_seconds()
                if self._take(self._patient_for(left), lease):
                    gives_up_at = self._gives_up_at(asked_at_seconds)
                    pause = self._seconds / _RENEWALS_PER_LEASE
            except ClusterError as error:
                logger.warning("Lease is not renewed", extra={"why": error.message})
        if not self._stopping.is_set():
            self._on_lost()

    def _gives_up_at(self, asked_at_seconds: float) -> float:
        """Return until when a lead lasts that was asked for at that time, if it is not renewed."""
        if self._is_alone:
            return math.inf
        return asked_at_seconds + self._seconds * _GIVES_UP_AFTER

    # `Any`: an object of the Kubernetes API.
    def _changed(self, lease: Resource, *, holder: str | None = None) -> dict[str, Any]:
        """Return the lease, taken or renewed by us, or given back."""
        spec = dict(lease.get("spec") or {})
        now = self._clock.now().astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        identity = self._identity if holder is None else holder
        if spec.get("holderIdentity") != identity:
            spec |= {
                "acquireTime": now,
                "leaseTransitions": int(spec.get("leaseTransitions") or 0) + bool(identity),
            }
        spec |= {
            "holderIdentity": identity,
            "renewTime": now,
            "leaseDurationSeconds": max(1, round(self._seconds)),
        }
        labels = {**(lease["metadata"].get("labels") or {}), **self._labels}
        return {"metadata": {**lease["metadata"], "labels": labels}, "spec": spec}


def _holder(lease: Resource | None) -> str:
    return str(((lease or {}).get("spec") or {}).get("holderIdentity") or "")
