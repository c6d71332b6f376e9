"""How a new management continues the jobs of an earlier one: from the committed state to actions.

The earlier one may have ended at any moment: between a change and its effects, or while it received
a report. The committed state and the launcher's reports of pods are enough: a job that was admitted
and is unknown to the launcher was never launched; one that was launched goes on, and what its pods
did meanwhile is reported again.
"""

from dataclasses import dataclass

from appliance.cluster.launcher import PodExit, Survivor
from appliance.core.cluster.jobs import JobType, Phase
from appliance.core.cluster.records import JobRecord
from appliance.core.ids import PodName, Role, pod_name
from appliance.core.pods.end_cause import EndCause
from appliance.management.reconciler import job_machine as machine
from appliance.management.reconciler.world import state_of

_STARTING = (Phase.SCHEDULED, Phase.INITIALIZING)

_LOST = "was lost: its launcher ended while management was away"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumption:
    """How to go on with one job.

    Attributes:
        state: Where it stands.
        waits: Whether it goes back into the queue.
        launches: Whether its pods are to be launched.
        pids: Process ids of its pods; empty if they are not known.
        exits: Ends of pods, to be told again.
        events: What has happened beside that, in order.
        forgets: Whether the launcher knows of a run of it that is over.
    """

    state: machine.JobState
    waits: bool = False
    launches: bool = False
    pids: dict[PodName, int]
    exits: tuple[PodExit, ...] = ()
    events: tuple[machine.Event, ...] = ()
    forgets: bool = False


def resume(job: JobRecord, survivor: Survivor | None) -> Resumption:
    """Return how to go on with an unfinished job.

    Args:
        job: The job as it is stored.
        survivor: What the launcher knows of it; None if nothing.
    """
    state = state_of(job)
    if job.phase in (Phase.CREATED, Phase.QUEUED):
        return Resumption(state=state, waits=True, pids={}, forgets=survivor is not None)
    if survivor is not None and survivor.pids:
        launched = (machine.Launched(),) if job.phase is Phase.SCHEDULED else ()
        stopped = (machine.Stopped(),) if survivor.is_stopped else ()
        is_ready = bool(job.service_address) and job.phase in _STARTING
        ready = (machine.CoordinatorReady(),) if is_ready else ()
        return Resumption(
            state=state,
            pids=dict(survivor.pids),
            exits=survivor.exits,
            events=(*launched, *ready, *stopped),
        )
    if job.phase is Phase.SCHEDULED and job.verdict is None:
        return Resumption(state=state, launches=True, pids={})
    role = Role.DRIVER if job.type is JobType.DRIVER else Role.COORDINATOR
    lost = machine.PodExited(
        pod=pod_name(job.id, role, 0),
        role=role,
        exit_code=137,
        reason=_LOST,
        cause=EndCause.NODE_LOST,
    )
    return Resumption(state=state, pids={}, events=(lost, machine.Stopped()))
