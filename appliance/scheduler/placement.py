"""What is free at a moment, and which systems, node groups and nodes a gang would get.

`Frame` gives every name of a snapshot a bit or an index, once. `Capacity` is what is free. Sets of
systems are integers used as bit sets, so taking and giving back are single operations, and trying
is cheap: `Capacity.give` returns its own undo. `place` decides, and takes nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from appliance.core.cluster.records import PodPlacement
from appliance.core.cluster.requirements import GroupKind, PodDemand
from appliance.core.quick_init import quick_init
from appliance.scheduler.demand import Demand, NodeRoom, supply_columns
from appliance.scheduler.snapshot import ClusterSnapshot, Grant, WorkflowReservation


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeShare:
    """What pods of one role take of one node.

    Attributes:
        node: Index of the node.
        pod: The pods; `count` is how many of them are on this node.
    """

    node: int
    pod: PodDemand


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Named resources, as bits and indices of a `Frame`.

    Attributes:
        systems: Bits of the systems.
        groups: Bits of the node groups.
        shares: What its pods take of nodes.
    """

    systems: int = 0
    groups: int = 0
    shares: tuple[NodeShare, ...] = ()

    def __or__(self, other: "Placement") -> "Placement":
        return Placement(
            systems=self.systems | other.systems,
            groups=self.groups | other.groups,
            shares=self.shares + other.shares,
        )


class Frame:
    """Bits and indices for the names of a snapshot."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self.system_names = [system.name for system in snapshot.systems]
        self._system_bits = {name: 1 << i for i, name in enumerate(self.system_names)}
        self.placeable_systems = sum(
            1 << i
            for i, system in enumerate(snapshot.systems)
            if system.is_healthy and system.name not in snapshot.draining
        )
        self.group_names = [group.name for group in snapshot.node_groups]
        self._group_bits = {name: 1 << i for i, name in enumerate(self.group_names)}
        self.placeable_groups = sum(
            1 << i for i, group in enumerate(snapshot.node_groups) if group.is_healthy
        )
        self._groups_at_least = [
            sum(1 << i for i, group in enumerate(snapshot.node_groups) if group.kind >= kind)
            for kind in GroupKind
        ]
        self.node_names = [node.name for node in snapshot.nodes]
        self._node_indices = {name: i for i, name in enumerate(self.node_names)}
        self.rooms = [
            NodeRoom(roles=node.roles, memory_bytes=node.memory_bytes, num_cores=node.num_cores)
            for node in snapshot.nodes
        ]
        self.windows = [
            (self._system_bits.get(window.system, 0), window.start_seconds, window.end_seconds)
            for window in snapshot.maintenance
        ]
        self.blocks = self._masks(snapshot)

    def _masks(self, snapshot: ClusterSnapshot) -> list[int]:
        masks: dict[str, int] = {}
        for name, block in snapshot.blocks.items():
            masks[block] = masks.get(block, 0) | self._system_bits.get(name, 0)
        return [masks[block] for block in sorted(masks)]

    def group_mask(self, kind: GroupKind) -> int:
        """Return the node groups that serve where `kind` is asked for."""
        return self._groups_at_least[kind]

    def away(self, start_seconds: float, end_seconds: float) -> int:
        """Return the systems with maintenance at some time from start to end."""
        mask = 0
        for bit, start, end in self.windows:
            if start < end_seconds and start_seconds < end:
                mask |= bit
        return mask

    def window_ends(self, after_seconds: float) -> list[float]:
        """Return when maintenance ends that has not ended yet."""
        return sorted({end for _, _, end in self.windows if end > after_seconds})

    def held(self, grant: Grant) -> Placement:
        """Return a grant in bits and indices; names that no longer exist are left out."""
        bits = self._system_bits
        systems = 0
        for name in grant.systems:
            systems |= bits.get(name, 0)
        holding = grant.holding
        for name in holding.reserved_systems:
            systems |= bits.get(name, 0)
        groups = 0
        for name in holding.node_groups:
            groups |= self._group_bits.get(name, 0)
        shares = tuple(self._shares(holding.pods)) if holding.pods else ()
        return Placement(systems=systems, groups=groups, shares=shares)

    def reserved(self, reservation: WorkflowReservation) -> Placement:
        """Return a workflow's reservation in bits."""
        systems = sum(self._system_bits.get(name, 0) for name in reservation.systems)
        groups = sum(self._group_bits.get(name, 0) for name in reservation.node_groups)
        return Placement(systems=systems, groups=groups)

    def systems_of(self, mask: int) -> tuple[str, ...]:
        """Return the names of systems."""
        return tuple(self.system_names[i] for i in _bits(mask))

    def groups_of(self, mask: int) -> tuple[str, ...]:
        """Return the names of node groups."""
        return tuple(self.group_names[i] for i in _bits(mask))

    def columns_of(self, placement: Placement) -> NDArray[np.int64]:
        """Return what a placement gives back, as far as jobs may be placed there again."""
        empty = Capacity(self)
        empty.systems = empty.groups = 0
        empty.memory = [0] * len(self.rooms)
        empty.cores = [0] * len(self.rooms)
        empty.give(placement)
        return empty.columns()

    def pods_of(self, placement: Placement) -> tuple[PodPlacement, ...]:
        """Return what pods take of nodes, by name."""
        return tuple(
            PodPlacement(
                node=self.node_names[share.node],
                role=share.pod.role,
                count=share.pod.count,
                memory_bytes=share.pod.count * share.pod.memory_bytes,
                num_cores=share.pod.count * share.pod.num_cores,
            )
            for share in placement.shares
        )

    def _shares(self, pods: Iterable[PodPlacement]) -> Iterator[NodeShare]:
        for pod in pods:
            if (index := self._node_indices.get(pod.node)) is not None:
                whole = PodDemand(
                    role=pod.role, memory_bytes=pod.memory_bytes, num_cores=pod.num_cores
                )
                yield NodeShare(node=index, pod=whole)


class Capacity:
    """What is free at a moment.

    Args:
        frame: The cluster.
    """

    __slots__ = ("cores", "frame", "groups", "memory", "systems")

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.systems = frame.placeable_systems
        self.groups = frame.placeable_groups
        self.memory = [room.memory_bytes for room in frame.rooms]
        self.cores = [room.num_cores for room in frame.rooms]

    def copy(self) -> "Capacity":
        """Return a copy that changes on its own."""
        other = object.__new__(Capacity)
        other.frame = self.frame
        other.systems, other.groups = self.systems, self.groups
        other.memory, other.cores = self.memory.copy(), self.cores.copy()
        return other

    def meet(self, other: "Capacity") -> "Capacity":
        """Return what is free in both."""
        both = self.copy()
        both.systems &= other.systems
        both.groups &= other.groups
        both.memory = [min(pair) for pair in zip(self.memory, other.memory, strict=True)]
        both.cores = [min(pair) for pair in zip(self.cores, other.cores, strict=True)]
        return both

    def take(self, placement: Placement) -> None:
        """Remove what a job gets."""
        self.systems &= ~placement.systems
        self.groups &= ~placement.groups
        self._shift(placement, -1)

    def give(self, placement: Placement) -> Callable[[], None]:
        """Add what a job holds, and return how to undo it."""
        systems, groups = self.systems, self.groups
        self.systems |= placement.systems & self.frame.placeable_systems
        self.groups |= placement.groups & self.frame.placeable_groups
        self._shift(placement, 1)

        def undo() -> None:
            self.systems, self.groups = systems, groups
            self._shift(placement, -1)

        return undo

    def _shift(self, placement: Placement, sign: int) -> None:
        for share in placement.shares:
            self.memory[share.node] += sign * share.pod.count * share.pod.memory_bytes
            self.cores[share.node] += sign * share.pod.count * share.pod.num_cores

    def columns(self) -> NDArray[np.int64]:
        """Return the free amounts as the row with which demands are compared."""
        frame = self.frame
        groups = [(self.groups & frame.group_mask(kind)).bit_count() for kind in GroupKind]
        rooms = (
            NodeRoom(roles=room.roles, memory_bytes=memory, num_cores=cores)
            for room, memory, cores in zip(frame.rooms, self.memory, self.cores, strict=True)
        )
        row = supply_columns(self.systems.bit_count(), groups, rooms)
        return np.maximum(np.array(row, dtype=np.int64), 0)


def place(
    demand: Demand,
    capacity: Capacity,
    *,
    start_seconds: float,
    end_seconds: float,
    preferred: int = 0,
) -> Placement | None:
    """Return what a gang would get of what is free, or None if it does not fit.

    Args:
        demand: The gang.
        capacity: What is free; it is not changed.
        start_seconds: When the job would start.
        end_seconds: By when it would end; systems with maintenance before that are left out.
        preferred: Systems to use before others.
    """
    frame = capacity.frame
    free = capacity.systems
    if free.bit_count() < demand.num_systems:
        return None
    if demand.num_systems:
        free &= ~frame.away(start_seconds, end_seconds)
    systems = choose_systems(free, demand.num_systems, frame.blocks, preferred)
    groups = _choose_groups(demand, capacity)
    shares = _choose_nodes(demand.pods, capacity) if demand.pods else ()
    if systems is None or groups is None or shares is None:
        return None
    return Placement(systems=systems, groups=groups, shares=shares)


def choose_systems(free: int, count: int, blocks: Sequence[int], preferred: int = 0) -> int | None:
    """Pick systems that are close to each other.

    The smallest block that holds all is taken, so that larger ones stay whole; else as few blocks
    as possible.

    Args:
        free: Bits of the systems to choose from.
        count: How many.
        blocks: Bits of the systems of each block; empty knows no topology.
        preferred: Bits of systems to use before others.
    """
    if free.bit_count() < count:
        return None
    wanted = free & preferred
    if wanted:
        if wanted.bit_count() >= count:
            return choose_systems(wanted, count, blocks)
        rest = choose_systems(free & ~wanted, count - wanted.bit_count(), blocks)
        return None if rest is None else wanted | rest
    chosen = 0
    parts = [free & block for block in blocks]
    while parts and (missing := count - chosen.bit_count()):
        whole = [part for part in parts if part.bit_count() >= missing]
        part = min(whole, key=int.bit_count) if whole else max(parts, key=int.bit_count)
        if not part:
            break
        chosen |= _lowest(part, missing)
        parts = [other & ~chosen for other in parts]
    return chosen | _lowest(free & ~chosen, count - chosen.bit_count())


def _choose_groups(demand: Demand, capacity: Capacity) -> int | None:
    """Pick node groups, the smallest kind that will do first."""
    chosen = 0
    if not demand.num_node_groups:
        return chosen
    for kind in GroupKind:
        if kind < demand.group_kind:
            continue
        larger = 0 if kind is GroupKind.XLARGE else capacity.frame.group_mask(GroupKind(kind + 1))
        exact = capacity.groups & capacity.frame.group_mask(kind) & ~larger
        chosen |= _lowest(exact, demand.num_node_groups - chosen.bit_count())
    return chosen if chosen.bit_count() == demand.num_node_groups else None


def _choose_nodes(pods: Sequence[PodDemand], capacity: Capacity) -> tuple[NodeShare, ...] | None:
    """Assign pods to nodes, the largest first, each where least memory remains.

    Pods of a SwarmX tree are spread over nodes; other pods fill up nodes that are in use.
    """
    memory, cores = capacity.memory.copy(), capacity.cores.copy()
    counts: dict[tuple[int, PodDemand], int] = {}
    for pod in sorted(pods, key=lambda pod: -pod.memory_bytes):
        hosts = [i for i, room in enumerate(capacity.frame.rooms) if pod.role in room.roles]
        is_spread = pod.role == "broadcastreduce"
        for _ in range(pod.count):
            fitting = [
                i
                for i in hosts
                if (memory[i] >= pod.memory_bytes or not pod.memory_bytes)
                and (cores[i] >= pod.num_cores or not pod.num_cores)
            ]
            if not fitting:
                return None
            node = min(fitting, key=lambda i: (is_spread and counts.get((i, pod), 0), memory[i]))
            memory[node] -= pod.memory_bytes
            cores[node] -= pod.num_cores
            counts[node, pod] = counts.get((node, pod), 0) + 1
    return tuple(
        NodeShare(
            node=node,
            pod=PodDemand(
                role=pod.role,
                count=count,
                memory_bytes=pod.memory_bytes,
                num_cores=pod.num_cores,
            ),
        )
        for (node, pod), count in counts.items()
    )


def _lowest(mask: int, count: int) -> int:
    """Return the lowest `count` bits that are set, or all if there are fewer."""
    if count >= mask.bit_count():
        return mask
    chosen = 0
    for _ in range(count):
        bit = mask & -mask
        chosen |= bit
        mask ^= bit
    return chosen


def _bits(mask: int) -> Iterator[int]:
    while mask:
        bit = mask & -mask
        yield bit.bit_length() - 1
        mask ^= bit
