"""Resources that workflows retain between their jobs, and what each admission adds to them."""

from collections.abc import Iterable

from appliance.core.cluster.records import Reservation
from appliance.core.ids import WorkflowId
from appliance.management.cluster.cluster_model import ClusterModel
from appliance.management.store.state import State
from appliance.scheduler.snapshot import Grant


class Reservations:
    """The workflows that retain what their jobs get. Called by the reconciler's thread alone.

    Args:
        state: The appliance's database.
        model: Told of every change.
    """

    def __init__(self, state: State, model: ClusterModel) -> None:
        self._state = state
        self._model = model
        self._reserving: set[WorkflowId] = set()

    def resume(self) -> None:
        """Find the workflows that retain what their jobs get, and release those without a lease."""
        for workflow in self._state.workflows.reserving():
            if self._state.leases.exists(workflow):
                self._reserving.add(workflow)
            else:
                self._state.workflows.release(workflow)
        self._model.reload_reservations()

    def hold(self, workflow: WorkflowId, grants: Iterable[Grant | None]) -> None:
        """Let a workflow retain what its jobs get, beginning with what they hold now."""
        self._reserving.add(workflow)
        for grant in grants:
            if grant is not None and grant.workflow == workflow:
                self.keep(grant)

    def is_open(self, workflow: WorkflowId) -> bool:
        """Whether a workflow would retain what its jobs get, and retains nothing yet."""
        kept = (reservation.workflow.id for reservation in self._model.facts.reservations)
        return workflow in self._reserving and workflow not in kept

    def release(self, workflow: WorkflowId) -> None:
        """Release what a workflow retains."""
        self._reserving.discard(workflow)
        self._model.reload_reservations()

    def expire(self, workflow: WorkflowId) -> bool:
        """Release what a workflow without a client retains; False if it retains nothing."""
        if workflow not in self._reserving:
            return False
        self._state.workflows.release(workflow)
        self.release(workflow)
        return True

    def job_ended(self, workflow: WorkflowId, unfinished: Iterable[WorkflowId]) -> None:
        """Release what a workflow retains that has neither a client nor jobs any more.

        Args:
            workflow: Of the job that ended.
            unfinished: Workflows of the jobs that have not ended.
        """
        if workflow not in self._reserving or self._state.leases.exists(workflow):
            return
        if workflow not in unfinished:
            self.expire(workflow)

    def keep(self, grant: Grant) -> None:
        """Add what a job got to what its workflow retains, if it reserves."""
        if grant.workflow not in self._reserving or not grant.num_systems:
            return
        workflow = self._state.workflows.find(grant.workflow)
        if workflow is None:
            return
        old = [r for r in self._model.facts.reservations if r.workflow.id == workflow.id]
        systems = dict.fromkeys(name for r in old for name in r.systems)
        groups = dict.fromkeys(name for r in old for name in r.node_groups)
        kept = Reservation(
            workflow=workflow,
            systems=tuple(systems | dict.fromkeys((*grant.systems, *grant.reserved_systems))),
            node_groups=tuple(groups | dict.fromkeys(grant.node_groups)),
        )
        self._state.workflows.keep(kept)
        self._model.reload_reservations()
