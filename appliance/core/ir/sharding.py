"""Which part of the global batch each system computes, and a plan's nodes narrowed to that part."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from appliance.core.ir.attributes import constant, integer, integers
from appliance.core.ir.graph import Attribute, Node
from appliance.core.ir.tensors import Constant, TensorType


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


def localise(
    nodes: Iterable[Node],
    *,
    sharded: Mapping[str, int],
    types: Mapping[str, TensorType],
    shard: BatchShard,
) -> tuple[Node, ...]:
    """Narrow nodes of a plan's wafer part to one system's share of the batch.

    Result types become those of the share, and attributes that speak of sizes follow. What depends
    on where the share lies gets it as attributes: `wsc.ShardSlice` and `wsc.ShardPad` get `start`,
    `size` and `global_size`, random ops `global_shape`, `axis` and `start`.

    Args:
        nodes: Wafer nodes of a plan, in any number.
        sharded: `Plan.sharded`.
        types: `Plan.types`.
        shard: The share.

    Returns:
        The same nodes in the same order, each in normal form for its new types.
    """
    localiser = _Localiser(sharded, types, shard)
    return tuple(map(localiser.localise, nodes))


@dataclass(frozen=True, slots=True)
class _Localiser:
    """What all nodes of one share have in common."""

    sharded: Mapping[str, int]
    types: Mapping[str, TensorType]
    shard: BatchShard

    def localise(self, node: Node) -> Node:
        """Narrow one node."""
        local = tuple(
            self.shard.local_type(type_, self.sharded.get(name))
            for name, type_ in zip(node.results, node.types, strict=True)
        )
        adjust = _ADJUSTMENTS.get(node.op)
        attributes = adjust(self, node) if adjust is not None else {}
        if local == node.types and not attributes:
            return node
        return replace(node, types=local, attributes={**node.attributes, **attributes})

    def _axis(self, node: Node) -> int | None:
        return self.sharded.get(node.results[0])

    def constant(self, node: Node) -> dict[str, Attribute]:
        """Cut a constant to the share; a splat only changes its shape."""
        axis, value = self._axis(node), constant(node, "value")
        if axis is None:
            return {}
        local = self.shard.local_type(value.type, axis)
        if value.is_splat:
            return {"value": Constant(local, value.data)}
        start = self.shard.local_start(value.type, axis)
        index = (slice(None),) * axis + (slice(start, start + local.shape[axis]),)
        return {"value": Constant(local, value.to_numpy()[index].tobytes())}

    def random(self, node: Node) -> dict[str, Attribute]:
        """Tell a random op which part of the global tensor it draws."""
        axis = self._axis(node)
        if axis is None:
            return {}
        start = self.shard.local_start(node.types[0], axis)
        return {"global_shape": node.types[0].shape, "axis": axis, "start": start}

    def slice(self, node: Node) -> dict[str, Attribute]:
        """Along the batch axis a slice takes whole batches; its bounds shrink with them."""
        axis = self._axis(node)
        if axis is None:
            return {}
        bounds = {name: list(integers(node, name)) for name in ("begin", "end")}
        for bound in bounds.values():
            bound[axis] = bound[axis] // self.shard.batch_size * self.shard.size
        return {name: tuple(bound) for name, bound in bounds.items()}

    def split(self, node: Node) -> dict[str, Attribute]:
        """Parts along the batch axis shrink with the batch."""
        axis = integer(node, "axis")
        if self._axis(node) != axis:
            return {}
        sizes = (self.shard.local_type(type_, axis).shape[axis] for type_ in node.types)
        return {"split_sizes": tuple(sizes)}

    def share(self, node: Node) -> dict[str, Attribute]:
        """Say which part of a whole tensor the share is."""
        axis, outer = integer(node, "axis"), integer(node, "outer")
        global_size = self.types[node.results[0]].shape[axis] // outer
        multiple = global_size // self.shard.batch_size
        return {
            "start": multiple * self.shard.offset,
            "size": multiple * self.shard.size,
            "global_size": global_size,
        }


_ADJUSTMENTS: Mapping[str, Callable[[_Localiser, Node], dict[str, Attribute]]] = {
    "Const": _Localiser.constant,
    "RandomMultinomial": _Localiser.random,
    "RandomNormal": _Localiser.random,
    "RandomUniform": _Localiser.random,
    "Split": _Localiser.split,
    "StridedSlice": _Localiser.slice,
    "StridedSliceGrad": _Localiser.slice,
    "wsc.ShardPad": _Localiser.share,
    "wsc.ShardSlice": _Localiser.share,
}
