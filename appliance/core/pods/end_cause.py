"""What ended a pod, as a value to decide by; the words beside it are for people. Pure."""

from enum import StrEnum


class EndCause(StrEnum):
    """Who or what ended a pod.

    `DRAINED` to `DELETED` are *disruptions*: somebody has taken the pod away, whatever it did.
    """

    PROCESS = "process"
    """Its program ended, by itself or by a signal."""
    OUT_OF_MEMORY = "out-of-memory"
    """It took more memory than its limit."""
    OVER_LIMIT = "over-limit"
    """Its node evicted it and does not call that a disruption: it took more disk than its limit.
    Servers before Kubernetes 1.26 say so, too, of a pod that a full node evicts."""
    IMAGE = "image"
    """Its image could not be pulled."""
    UNPLACED = "unplaced"
    """No node took it in time."""
    NOT_STARTED = "not-started"
    """Its node did not start it in time, for another reason than its image."""
    DRAINED = "drained"
    """It was evicted by the eviction API, as by `kubectl drain`."""
    PREEMPTED = "preempted"
    """The scheduler of pods needed its room for a more urgent one."""
    TAINTED = "tainted"
    """Its node got a taint that it does not bear."""
    NODE_LOST = "node-lost"
    """Its node, or what ran its pods there, is gone."""
    ENDED_BY_NODE = "ended-by-node"
    """Its node ended it because it shuts down or runs out of memory, disk or process ids."""
    DISRUPTED = "disrupted"
    """It was taken away for a reason that is not known here."""
    DELETED = "deleted"
    """Somebody deleted it who has not said why; on Kubernetes before 1.26 drains look so, too."""
    UNKNOWN = "unknown"
    """Nobody says."""

    @property
    def is_disruption(self) -> bool:
        """Whether somebody has taken the pod away, whatever it did."""
        return self in _DISRUPTIONS


_DISRUPTIONS = frozenset(
    {
        EndCause.DRAINED,
        EndCause.PREEMPTED,
        EndCause.TAINTED,
        EndCause.NODE_LOST,
        EndCause.ENDED_BY_NODE,
        EndCause.DISRUPTED,
        EndCause.DELETED,
    }
)
