"""SwarmX as a tree of pods over a job's systems: which pod sends to which, and where sums go.

Pod 0 is the root; it reads from MemoryX, and MemoryX reads its sums. The children of a pod are
systems or pods, each of which covers a range of adjacent systems. All of a pod's children but the
last cover equally many, a power of the fan-out, which is a power of two; so a pod's additions are a
subtree of one binary tree over all systems (`workers.swarmx.addition_tree`). Hence the bits of a
sum depend on the number of systems alone, not on how many pods add it up.
"""

from collections import deque
from dataclasses import dataclass
from functools import cache

from appliance.core.errors import InternalError

FAN_OUTS = (16, 8, 4, 2)
"""Fan-outs to choose from, the largest first.

A pod holds the rings of all its children and, where they are on other nodes, sends each of them
every weight: more than 16 connections of their own are more than a server's network card gains
from, and 16 is the number of systems of the largest cluster that was shown. On one node one copy
serves every system, so up to 16 systems have one pod, which is the fastest.
"""
MAX_FAN_OUT = FAN_OUTS[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeChild:
    """What a SwarmX pod sends to and adds up.

    Attributes:
        first_system: First of the systems that it covers.
        num_systems: How many it covers.
        pod: Index of the SwarmX pod that it is; None if it is the system itself.
    """

    first_system: int
    num_systems: int
    pod: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TreePod:
    """One SwarmX pod of a job.

    Attributes:
        index: Its index among the job's pods of that role.
        parent: Index of the pod above it; None for the root.
        children: What is below it, in the order of the systems.
    """

    index: int
    parent: int | None
    children: tuple[TreeChild, ...]

    @property
    def systems(self) -> range:
        """The systems that it covers."""
        first, last = self.children[0], self.children[-1]
        return range(first.first_system, last.first_system + last.num_systems)


@cache
def swarmx_tree(num_systems: int, *, fan_out: int) -> tuple[TreePod, ...]:
    """Return the SwarmX pods of a job by index: the root, then level by level.

    A pod that would have a single child is left out, unless it is the root.

    Args:
        num_systems: Systems of the job, at least 1.
        fan_out: Children of a pod at most: a power of two, from 2.

    Raises:
        InternalError: There is no such tree.
    """
    if num_systems < 1 or fan_out < 2 or fan_out & (fan_out - 1):
        raise InternalError(
            f"SwarmX cannot be a tree over {num_systems} systems with a fan-out of {fan_out}; that "
            "has to be a power of two."
        )
    pods: list[TreePod] = []
    waiting: deque[tuple[int | None, range]] = deque([(None, range(num_systems))])
    num_named = 1
    while waiting:
        parent, systems = waiting.popleft()
        children: list[TreeChild] = []
        for part in _parts(systems, fan_out):
            pod = None
            if len(part) > 1:
                pod, num_named = num_named, num_named + 1
                waiting.append((len(pods), part))
            children.append(TreeChild(first_system=part.start, num_systems=len(part), pod=pod))
        pods.append(TreePod(index=len(pods), parent=parent, children=tuple(children)))
    return tuple(pods)


def pod_above(pods: tuple[TreePod, ...], system: int) -> TreePod:
    """Return the pod that a system is a child of."""
    return next(
        pod
        for pod in pods
        for child in pod.children
        if child.pod is None and child.first_system == system
    )


@cache
def best_fan_out(num_systems: int, num_nodes: int, max_pods: int) -> int:
    """Return the fan-out with which the busiest SwarmX node has the fewest children to serve.

    Args:
        num_systems: Systems of the job, at least 1.
        num_nodes: Nodes for SwarmX pods, which get them in turn; none counts as one.
        max_pods: For how many pods these nodes have memory; if no tree is as small, the smallest is
            returned.
    """
    fitting = [f for f in FAN_OUTS if len(swarmx_tree(num_systems, fan_out=f)) <= max_pods]
    return min(
        fitting or [MAX_FAN_OUT],
        key=lambda fan_out: _most_children(num_systems, fan_out, num_nodes or 1),
    )


def _most_children(num_systems: int, fan_out: int, num_nodes: int) -> int:
    load = [0] * num_nodes
    for pod in swarmx_tree(num_systems, fan_out=fan_out):
        load[pod.index % num_nodes] += len(pod.children)
    return max(load)


def _parts(systems: range, fan_out: int) -> list[range]:
    width = 1
    while width * fan_out < len(systems):
        width *= fan_out
    return [systems[start : start + width] for start in range(0, len(systems), width)]
