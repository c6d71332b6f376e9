"""The tensors of a session: the segments that hold them, and which of them have a value.

State is in memory or in a file (`workers.memoryx.on_disk.backing`), together with deferred sums.
"""

import contextlib
from functools import partial

import numpy as np
from numpy.typing import NDArray

from appliance.core.errors import ConflictError, NotFoundError
from appliance.core.ir.tensors import TensorType
from appliance.core.plans.plan import Plan, StateTensor
from appliance.streams.segment import give_back
from appliance.streams.slot_layout import LayoutItem, SlotLayout
from appliance.streams.store import StoreServer
from appliance.streams.stream_topology import (
    COMPUTED_SEGMENT,
    PACKED_SEGMENT,
    PATTERN_SEGMENT,
    STATE_SEGMENT,
    computed_layout,
    packed_layout,
    pattern_layout,
    persistent_segment,
    state_layout,
)
from appliance.streams.torch_views import tensors_of
from workers.memoryx.gathered_loads import GatheredLoads
from workers.memoryx.on_disk.backing import Backing
from workers.memoryx.on_disk.block_checksums import Sums
from workers.memoryx.on_disk.paging import Paged
from workers.memoryx.on_disk.store_checksums import StoreChecksums
from workers.memoryx.readiness import deferred_sum_layout
from workers.memoryx.snapshots import Snapshots
from workers.memoryx.sparse_state import SparseState

_DEFERRED_SUMS = "deferred-sums"


def tensor_bytes(plan: Plan) -> int:
    """Return the bytes of all tensors that a store of the plan holds, snapshots apart."""
    layouts = (
        state_layout(plan),
        computed_layout(plan),
        packed_layout(plan),
        deferred_sum_layout(plan),
    )
    return sum(layout.num_bytes for layout in layouts)


class TensorStore:
    """The tensors of one session: state, computed loads, snapshots; which state has a value.

    Args:
        plan: The session's plan.
        server: Where the segments are served; closed with this object.
        backing: Where they lie.
    """

    def __init__(self, plan: Plan, server: StoreServer, backing: Backing) -> None:
        self._server, self.backing = server, backing
        self.layout = self._layout = state_layout(plan)
        self._items = {item.name: item for item in self._layout.items}
        self._by_resource = {tensor.resource_name: tensor for tensor in plan.state}
        self._missing = set(self._by_resource)
        self._bytes: NDArray[np.uint8] = server.add_segment(
            STATE_SEGMENT, self._layout, directory=backing.state_directory
        )
        self.state = tensors_of(self._layout, self._bytes)
        late = deferred_sum_layout(plan)
        late_memory = server.add_segment(_DEFERRED_SUMS, late, directory=backing.state_directory)
        self.deferred_sums = tensors_of(late, late_memory)
        self.packed_layout = packed_layout(plan)
        self.packed_memory: NDArray[np.uint8] = server.add_segment(
            PACKED_SEGMENT, self.packed_layout, directory=backing.state_directory
        )
        self.packed = tensors_of(self.packed_layout, self.packed_memory)
        self.checksums: StoreChecksums | None = None
        if backing.is_on_disk:
            self.checksums = StoreChecksums(
                plan,
                backing.directory,
                state=Paged(self.layout, self._bytes, self.descriptor),
                deferred=Paged(late, late_memory, server.descriptor(_DEFERRED_SUMS)),
                packed=Paged(self.packed_layout, self.packed_memory, self.packed_descriptor),
            )
        layout = pattern_layout(plan)
        patterns = layout.views(server.add_segment(PATTERN_SEGMENT, layout))
        self.sparse = SparseState(
            plan,
            layout=self._layout,
            memory=self._bytes,
            patterns=patterns,
            give_back=partial(give_back, server.descriptor(STATE_SEGMENT)),
        )
        self.snapshots = Snapshots(
            server,
            self._layout,
            self._bytes,
            backing.directory,
            whole=self.sparse.whole,
            checksums=None if self.checksums is None else self.checksums.state,
        )
        computed = computed_layout(plan)
        self.computed = tensors_of(computed, server.add_segment(COMPUTED_SEGMENT, computed))
        self.gathered = GatheredLoads(
            plan, state=self.state, places={**self.computed, **self.packed}, patterns=patterns
        )

    @property
    def memory(self) -> NDArray[np.uint8]:
        """The bytes of the state."""
        return self._bytes

    @property
    def num_state_bytes(self) -> int:
        """Bytes that the state takes."""
        held = (*self.sparse.held.values(), *self.gathered.held.values())
        patterns = sum(how.pattern_bytes for how in held)
        return self.layout.num_bytes - self.sparse.num_bytes_given_back + patterns

    @property
    def descriptor(self) -> int:
        """What holds the state."""
        return self._server.descriptor(STATE_SEGMENT)

    @property
    def packed_descriptor(self) -> int:
        """What holds the packed copies of loads."""
        return self._server.descriptor(PACKED_SEGMENT)

    def commit_ingest(self, resource_names: list[str]) -> int:
        """Note that state tensors have their value now; return how many have none yet.

        Raises:
            NotFoundError: A name is not a state tensor of the plan.
        """
        for name in resource_names:
            self._missing.discard(self._tensor(name).resource_name)
        if self.checksums is not None:
            self.checksums.state.written(self._tensor(name).value for name in resource_names)
        return len(self._missing)

    def require_complete(self) -> None:
        """Check that every state tensor has a value.

        Raises:
            ConflictError: Some have none.
        """
        if self._missing:
            first = min(self._missing)
            raise ConflictError(
                f"{len(self._missing)} of {len(self._by_resource)} state tensors have no value, "
                f"{first!r} among them."
            )

    def item(self, resource_name: str) -> LayoutItem:
        """Return name, type and place of a state tensor.

        Raises:
            NotFoundError: The plan has no such state tensor.
        """
        return self._items[self._tensor(resource_name).value]

    def read(self, resource_name: str) -> NDArray[np.generic]:
        """Return a state tensor's present value; as a view, if it is held as it is.

        Raises:
            NotFoundError: The plan has no such state tensor.
            ConflictError: It has no value yet.
        """
        if self._tensor(resource_name).resource_name in self._missing:
            raise ConflictError(f"State tensor {resource_name!r} has no value yet.")
        item = self.item(resource_name)
        whole = self.sparse.whole(item.name)
        return item.view(self._bytes) if whole is None else whole

    def num_nonzeros(self, resource_name: str) -> int:
        """Return how many elements of a state tensor are not zero; of a mask, as it is streamed by.

        Raises:
            NotFoundError: The plan has no such state tensor.
            ConflictError: It has no value yet.
        """
        counted = self.gathered.num_nonzeros(self.item(resource_name).name)
        return int(np.count_nonzero(self.read(resource_name))) if counted is None else counted

    def write(self, resource_name: str, value: NDArray[np.generic]) -> None:
        """Give a state tensor a value of its own shape and type.

        Raises:
            NotFoundError: The plan has no such state tensor.
            ConflictError: It is held by its non-zeros, as the steps have begun.
        """
        if self.sparse.whole(self.item(resource_name).name) is not None:
            raise ConflictError(f"State tensor {resource_name!r} was given a value after a step.")
        self.item(resource_name).view(self._bytes)[...] = value
        self._missing.discard(resource_name)
        if self.checksums is not None:
            self.checksums.state.written([self.item(resource_name).name])

    def checked(self, resource_name: str) -> tuple[NDArray[np.generic], Sums]:
        """Return a state tensor's value when the steps have ended, and checksums if it has some.

        Raises:
            NotFoundError: The plan has no such state tensor.
            ConflictError: It has no value yet.
            ClusterError: It is not what was written.
        """
        value, name = self.read(resource_name), self.item(resource_name).name
        if self.checksums is None:
            return value, ()
        sums = self.checksums.state.compare(name)
        return value, sums if self.sparse.whole(name) is None else ()

    def locate(self, resource_name: str, step_number: int) -> str:
        """Return the segment that holds a state tensor as it was after a step (counted from 1).

        Raises:
            NotFoundError: The plan has no such state tensor, or the snapshot is not there.
        """
        return self.snapshots.locate(step_number, self._tensor(resource_name).value)

    def expose(
        self, persistent_id: int, name: str, type_: TensorType, value: NDArray[np.generic]
    ) -> None:
        """Put a persistent tensor where store clients can attach it; replaces an older one."""
        segment = persistent_segment(persistent_id)
        with contextlib.suppress(NotFoundError):
            self._server.remove_segment(segment)
        layout = SlotLayout.of([(name, type_)])
        buffer = self._server.add_segment(segment, layout)
        layout.items[0].view(buffer)[...] = value

    def close(self) -> None:
        """Stop serving the segments."""
        if self.checksums is not None:
            self.checksums.close()
        self.snapshots.close()
        self._server.close()

    def _tensor(self, resource_name: str) -> StateTensor:
        if resource_name not in self._by_resource:
            raise NotFoundError(f"The plan has no state tensor {resource_name!r}.")
        return self._by_resource[resource_name]
