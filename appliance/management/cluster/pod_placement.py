"""On which joined nodes the pods of a job run: a function of the grant. Pure.

What the scheduler has counted against nodes runs there. Pods that were not counted are spread: a
system's two pods by the system, weight pods by the node groups, SwarmX pods beside the systems that
they feed or in turn, workers in turn. So the same grant on the same nodes gives the same places.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from appliance.cluster.node_links import NodeView
from appliance.core.cluster.jobs import JobType
from appliance.core.cluster.node_roles import NODE_ROLE
from appliance.core.cluster.records import JobRecord
from appliance.core.cluster.swarmx_tree import swarmx_tree
from appliance.core.cluster.systems import ClusterDescription, Node
from appliance.core.errors import ClusterError
from appliance.core.ids import Role
from appliance.core.pods.pod_spec import member_name

COMPILE_ROLES = (NODE_ROLE[Role.COORDINATOR],)
"""Roles of nodes without which nothing can be started, not even a compile."""


def place_pods(
    job: JobRecord, cluster: ClusterDescription, nodes: Sequence[NodeView]
) -> Mapping[str, str]:
    """Return the node of each pod by member name, as in `chief-0`.

    Args:
        job: The job, with what it was granted.
        cluster: The systems and node groups, in their order.
        nodes: The nodes that are there, in the order of their names.

    Raises:
        ClusterError: No node has a role that is needed.
    """
    places = _Places(job, nodes)
    if job.type is JobType.DRIVER:
        return {member_name(Role.DRIVER, 0): places.take(Role.DRIVER, job.sequence)}
    found = {member_name(Role.COORDINATOR, 0): places.take(Role.COORDINATOR, job.sequence)}
    if not job.type.has_gang:
        return found
    held = _held_nodes(job, cluster)
    for shard in range(job.requirements.num_shards):
        number = held[shard % len(held)] if held else job.sequence + shard
        found[member_name(Role.WEIGHT, shard)] = places.take(Role.WEIGHT, number)
    memory = found[member_name(Role.WEIGHT, 0)]
    systems = [system.name for system in cluster.systems]
    for index, name in enumerate(job.systems):
        number = systems.index(name) if name in systems else index
        home = places.take(Role.CHIEF, number)
        found[member_name(Role.CHIEF, index)] = home
        found[member_name(Role.ACTIVATION, index)] = places.take(Role.ACTIVATION, number, near=home)
    # The root beside MemoryX, others beside systems that they feed, on nodes that have few of them.
    used: Counter[str] = Counter()
    for pod in reversed(swarmx_tree(job.num_systems, fan_out=job.requirements.fan_out)):
        homes = [found[member_name(Role.CHIEF, system)] for system in pod.systems]
        beside = min(homes, key=used.__getitem__) if pod.index else memory
        number = job.sequence + pod.index
        node = places.take(Role.BROADCASTREDUCE, number, near=beside, used=used)
        found[member_name(Role.BROADCASTREDUCE, pod.index)] = node
        used[node] += 1
    for index in range(job.num_systems * job.workers_per_system):
        found[member_name(Role.WORKER, index)] = places.take(Role.WORKER, index)
    return found


def _held_nodes(job: JobRecord, cluster: ClusterDescription) -> list[int]:
    """Return the numbers of the MemoryX nodes of a job's groups, counted group by group."""
    found: list[int] = []
    first = 0
    for group in cluster.node_groups:
        numbers = range(first, first + group.num_nodes)
        found += numbers if group.name in job.holding.node_groups else ()
        first = numbers.stop
    return found


def joined_nodes(described: Sequence[Node], joined: Sequence[NodeView]) -> tuple[Node, ...]:
    """Return the joined nodes; a size in the cluster file overrides a node's own."""
    sizes = {node.name: node for node in described}
    return tuple(
        Node(
            name=view.name,
            roles=view.roles,
            num_cores=sizes[view.name].num_cores if view.name in sizes else view.cores.num_cores,
            memory_bytes=sizes[view.name].memory_bytes if view.name in sizes else view.memory_bytes,
        )
        for view in joined
    )


def missing_roles(joined: Sequence[NodeView]) -> tuple[str, ...]:
    """Return the roles that no node has, without which no job can run."""
    present = {role for view in joined for role in view.roles}
    return tuple(role for role in dict.fromkeys(NODE_ROLE.values()) if role not in present)


class _Places:
    """What is left of the places that were counted for a job.

    Args:
        job: The job, with what it was granted.
        nodes: The nodes that are there.
    """

    def __init__(self, job: JobRecord, nodes: Sequence[NodeView]) -> None:
        self._job, self._nodes = job, nodes
        self._counted: dict[str, Counter[str]] = {}
        names = {view.name for view in nodes}
        for pod in job.holding.pods:
            if pod.node in names:
                self._counted.setdefault(pod.role, Counter())[pod.node] += pod.count

    def take(self, role: Role, number: int, *, near: str = "", used: Mapping[str, int] = {}) -> str:
        """Return the node of one more pod.

        Args:
            role: The pod's role.
            number: Which of the nodes it gets if it was not counted.
            near: The node that it should share if that one has the role.
            used: Nodes that others are preferred to, the more the larger the number.
        """
        wanted = NODE_ROLE[role]
        counted = +self._counted.get(wanted, Counter())
        if near in self._with_role(wanted) and (near in counted or not counted):
            self._counted.get(wanted, Counter())[near] -= 1
            return near
        if counted:
            node = max(sorted(counted), key=counted.__getitem__)
            self._counted[wanted][node] -= 1
            return node
        fitting = self._with_role(wanted)
        if not fitting:
            raise ClusterError(
                f"Job {self._job.id} needs a node with role {wanted!r}, and none of the "
                f"{len(self._nodes)} nodes that have joined has it.",
                hint="Start one with `appliance node --role`.",
            )
        first = number % len(fitting)
        return min(fitting[first:] + fitting[:first], key=lambda node: used.get(node, 0))

    def _with_role(self, role: str) -> list[str]:
        return [view.name for view in self._nodes if role in view.roles]
