"""Whose beats renew a lease, and when clients were last known to live."""

import threading
from collections import OrderedDict
from enum import Enum

from appliance.core.clock import Clock
from appliance.core.cluster.access import Action, Principal, Target, refusal
from appliance.core.errors import ForbiddenError
from appliance.core.ids import JobId, WorkflowId
from appliance.management.cluster.inventory import Inventory
from appliance.management.rpc.access_edge import lease_target
from appliance.management.store.state import State
from protos.cluster.cluster_pb2 import HeartbeatRequest

_UNPROVED_LEASES = 10
"""Leases that beats alone may keep up what holds resources without a proof that its client lives.
A client that has lost its connection gives none before its next ordinary call or, while its job
runs, its next call to the coordinator; both come within seconds of each other in a live run."""
_MAX_KNOWN = 10_000


class Standing(Enum):
    """How sure it is that the job's own client is at the other end of a stream."""

    PROVED = "proved"
    LIKELY = "likely"
    UNKNOWN = "unknown"


def standing(sure: Principal | None, likely: Principal | None, target: Target) -> Standing:
    """Return how well a stream is proven to come from the client of a job or workflow.

    Args:
        sure: Who is at the other end; None if that is not sure.
        likely: Who most likely is; None if that cannot be said.
        target: The job or workflow.

    Raises:
        ForbiddenError: Somebody is there who may not.
    """
    principal = sure or likely
    if principal is None:
        return Standing.UNKNOWN
    if (why := refusal(principal, Action.ATTACH_JOB, target)) is not None:
        raise ForbiddenError(why)
    return Standing.LIKELY if sure is None else Standing.PROVED


class Presence:
    """When the clients of jobs and workflows have last been known to live.

    Args:
        lease_seconds: Life of a job without a sign of its client.
    """

    def __init__(self, clock: Clock, lease_seconds: float) -> None:
        self._clock = clock
        self._limit_seconds = lease_seconds * _UNPROVED_LEASES
        self._lock = threading.Lock()
        self._seen: OrderedDict[str, float] = OrderedDict()

    def seen(self, lease_id: str) -> None:
        """Take note that a client has proved that it lives."""
        with self._lock:
            self._seen[lease_id] = self._clock.monotonic_seconds()
            self._seen.move_to_end(lease_id)
            if len(self._seen) > _MAX_KNOWN:
                self._seen.popitem(last=False)

    def is_recent(self, lease_id: str) -> bool:
        """Whether a client was seen not too long ago; one that is not known counts as seen now.

        After a restart that is everyone.
        """
        with self._lock:
            at = self._seen.get(lease_id)
        if at is None:
            self.seen(lease_id)
            return True
        return self._clock.monotonic_seconds() - at <= self._limit_seconds


class LeaseBeats:
    """Renews the leases of jobs and workflows.

    Args:
        state: The appliance's database.
        inventory: Knows what workflows keep.
        presence: Remembers whose clients were seen.
    """

    def __init__(self, state: State, inventory: Inventory, presence: Presence) -> None:
        self._state, self._inventory = state, inventory
        self.presence = presence

    def renew(
        self,
        lease: str,
        beat: HeartbeatRequest,
        sure: Principal | None,
        likely: Principal | None,
    ) -> tuple[Standing, bool]:
        """Renew a lease by a beat, if the beat counts.

        Returns:
            How well it is proven whose beat it is, and whether it has renewed the lease.

        Raises:
            ForbiddenError: Somebody sends it who may not.
        """
        seen = standing(sure, likely, lease_target(lease, self._state))
        if seen is not Standing.UNKNOWN:
            self.presence.seen(lease)
        is_renewed = self._counts(lease, seen) and self._state.leases.renew(
            lease, holder=beat.host_name, seconds=beat.lease_duration_seconds_override
        )
        return seen, is_renewed

    def _counts(self, lease: str, seen: Standing) -> bool:
        """Whether a beat renews a lease."""
        if seen is not Standing.UNKNOWN:
            return True
        record = self._state.jobs.find(JobId(lease))
        if record is not None:
            holds = record.phase.holds_resources
        else:
            holds = bool(self._inventory.reserved_systems(WorkflowId(lease)))
        return not holds or self.presence.is_recent(lease)
