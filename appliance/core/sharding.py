"""Which part of the global batch each system works on, and a plan's nodes narrowed to that part."""

from dataclasses import dataclass

from appliance.core.tensors import TensorType


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchShard:
    """One system's share of the global batch.

    Attributes:
        batch_size: The global batch.
        offset: Index of the share's first sample.
        size: Number of samples.
    """

    batch_size: int
    offset: int
    size: int

    def local_type(self, type_: TensorType, axis: int | None) -> TensorType:
        """Return a value's type on this system.

        Args:
            type_: Type for the global batch.
            axis: Batch axis, whose size is a multiple of the batch size; None if not sharded.
        """
        if axis is None:
            return type_
        multiple = type_.shape[axis] // self.batch_size
        shape = (*type_.shape[:axis], multiple * self.size, *type_.shape[axis + 1 :])
        return TensorType(shape, type_.dtype)

    def local_start(self, type_: TensorType, axis: int) -> int:
        """Return the index along the batch axis at which this system's part begins."""
        return type_.shape[axis] // self.batch_size * self.offset


def split_batch(batch_size: int, num_systems: int) -> tuple[BatchShard, ...]:
    """Split the batch as evenly as possible; the first systems take one sample more.

    Args:
        batch_size: Global batch, at least `num_systems`.
        num_systems: Number of CS-2 systems.

    Returns:
        One share for each system, in order, covering the batch.
    """
    base, extra = divmod(batch_size, num_systems)
    sizes = [base + (index < extra) for index in range(num_systems)]
    offsets = [sum(sizes[:index]) for index in range(num_systems)]
    return tuple(
        BatchShard(batch_size=batch_size, offset=offset, size=size)
        for offset, size in zip(offsets, sizes, strict=True)
    )
