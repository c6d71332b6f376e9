"""The checksums of a store whose tensors lie in files."""

from collections.abc import Callable
from pathlib import Path

from appliance.core.plans.plan import Plan
from workers.memoryx.on_disk.block_checksums import Checksums, CheckThreads
from workers.memoryx.on_disk.paging import Paged
from workers.memoryx.sparse_state import SparseState


class StoreChecksums:
    """Those of each file.

    Args:
        plan: The session's plan.
        directory: Where the files are, for messages.
        state: State tensors.
        deferred: Deferred sums.
        packed: Packed copies of loads.
    """

    def __init__(
        self, plan: Plan, directory: Path, *, state: Paged, deferred: Paged, packed: Paged
    ) -> None:
        self._threads = CheckThreads()
        resources = {tensor.value: tensor.resource_name for tensor in plan.state}

        def of(paged: Paged, kind: str) -> Checksums:
            return Checksums(
                paged,
                directory,
                self._threads,
                title=lambda name: f"{kind} {resources.get(name, name)!r}",
            )

        self.state = of(state, "State tensor")
        self.deferred = of(deferred, "Sum")
        self.packed = of(packed, "The packed copy of")

    def then(self, do: Callable[[], None]) -> None:
        """Do something when the checksums are computed that were begun before."""
        self._threads.noting.submit(do)

    def hold_nonzeros(self, sparse: SparseState) -> None:
        """Compare what a mask makes sparse, have its zeros dropped, and compute its checksums.

        Raises:
            ClusterError: It is not what was written.
        """
        names = sparse.to_hold
        for name in names:
            self.state.compare(name)
        sparse.hold()
        for name in names:
            self.state.cut(name, sparse.num_bytes_of(name))
        self.state.written(names)

    def close(self) -> None:
        """End the threads; not before the files' descriptors are needed no more."""
        self._threads.close()
