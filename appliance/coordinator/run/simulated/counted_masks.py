"""What a session's masks let through, counted again when the program has changed some."""

import contextlib
from collections.abc import Mapping

from appliance.coordinator.run.execution_context import ExecutionContext
from appliance.coordinator.run.gang import Gang
from appliance.coordinator.run.run_session import Session
from appliance.coordinator.run.session_pods import SessionPods
from appliance.coordinator.run.session_times import SessionProgress, mask_changes
from appliance.coordinator.run.simulated.profiles import store_simulated_views
from appliance.coordinator.run.simulated.sparse_session import (
    SparseSession,
    mask_tensors,
    sparse_session,
)
from appliance.core.errors import WscError


class CountedMasks:
    """The masks of a job's present session, and what csctl and pages show by them.

    Args:
        context: What the job works with.
        gang: Its pods.
        pods: The same, as sessions need them.
    """

    def __init__(self, context: ExecutionContext, gang: Gang, pods: SessionPods) -> None:
        self._context, self._gang, self._pods = context, gang, pods
        self._session: Session | None = None
        self._num_changes = 0
        self._nonzeros: Mapping[str, int] = {}
        self.latest = SparseSession()

    def forget(self, session: Session) -> None:
        """Begin with a session whose masks MemoryX does not have yet."""
        self._session, self._num_changes = None, 0
        self.latest = SparseSession()
        self._store_views(session)

    def count(self, session: Session) -> None:
        """Count what the masks let through, and work out what follows from it.

        RigL and SET let others through, but as many as before: then nothing follows anew.
        """
        nonzeros = self._pods.count_nonzeros(session, mask_tensors(session.plan))
        if session is self._session and nonzeros == self._nonzeros:
            return
        self._session, self._nonzeros = session, nonzeros
        self.latest = sparse_session(
            session.plan,
            nonzeros,
            machine=self._context.machine,
            num_systems=self._gang.size.num_systems,
            num_shards=self._gang.size.num_shards,
        )
        if self.latest.densities:
            self._store_views(session)

    def follow(self, progress: SessionProgress) -> None:
        """Count again if the program has changed masks since, and let the progress tell it."""
        changes, session = mask_changes(self._gang.reports()), self._session
        if changes == self._num_changes or session is None:
            return
        with contextlib.suppress(WscError):  # a pod that is gone is reported by others
            self.count(session)
            self._num_changes = changes
            progress.masked_weights = self.latest.weights

    def _store_views(self, session: Session) -> None:
        """Store what pages and csctl show of a program, by what is known of its weights."""
        store_simulated_views(
            self._context.spec.work_dir,
            session.number,
            session.plan,
            machine=self._context.machine,
            num_systems=self._gang.size.num_systems,
            densities=self.latest.densities,
        )
