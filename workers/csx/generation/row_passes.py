"""Runs passes that compute their own position only, on caches that the first pass has filled.

What the first pass computes of the positions up to its own is what a later one would compute again:
the tokens there are final, and no position depends on a later one (`rows`). So the values that a
later pass reads whole are kept, and each pass writes its row into them. Between two writes and the
first read of what was written the nodes run as one program, a *segment*.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import torch

from appliance.core.ir.graph import Node
from appliance.core.ir.tensors import TensorType
from appliance.streams.torch_views import Tensors
from workers.csx.generation.rows import Axis, RowProgram
from workers.csx.generation.stage import Stage, result_types


@dataclass(frozen=True, slots=True)
class _Segment:
    """Nodes that run together, and which of their results go into caches."""

    stage: Stage
    writes: tuple[str, ...]


class RowPasses:
    """The program of one position.

    Args:
        tokens: Name of the tokens.
        loop_dim: Their axis of positions.
        size: Number of positions.
        types: Type of every value that the whole body reads from outside.
        known: The constants.
        live_out: Names of the values that are read after the pass.
        device: Where to compute; None is the processor.
    """

    def __init__(
        self,
        rows: RowProgram,
        *,
        tokens: str,
        loop_dim: int,
        size: int,
        types: Mapping[str, TensorType],
        known: Tensors,
        live_out: Collection[str],
        device: torch.device | None,
    ) -> None:
        self.conditions = tuple(rows.conditions)
        self.caches = frozenset(name for name, _ in rows.caches.values())
        self._size, self._tokens = size, tokens
        self._sources = dict(rows.caches.values())
        self._slices, self._cached = dict(rows.slices), dict(rows.caches)
        outside = {**types, **_cache_types(rows, size)}
        outside[tokens] = _narrow(types[tokens], Axis(loop_dim), size)
        outside.update(
            {
                name: _narrow(types[source], axis, size)
                for name, (source, axis) in rows.slices.items()
            }
        )
        self._live_out = frozenset(live_out)
        self._segments = tuple(
            self._segment(nodes, outside, later, known, device)
            for nodes, later in _with_later_reads(_cut(rows), self._live_out)
        )
        self._whole: Tensors = {}

    def begin(self, first_pass: Tensors) -> None:
        """Take the caches from what a pass over all positions has computed."""
        self._whole = {
            name: first_pass[name].clone(memory_format=torch.contiguous_format)
            for name in self.caches
        }

    def run(self, values: Tensors, *, position: int, step: int) -> Tensors:
        """Compute one position.

        Args:
            values: What does not change from pass to pass, by name, the position, and the tokens'
                row.
            step: Number for random operations.

        Returns:
            The values of `live_out`.
        """
        table = dict(values)
        for name, (source, axis) in self._slices.items():
            table[name] = _row(values[source], axis, self._size, position)
        for name, (source, _) in self._cached.items():
            table[name] = self._whole[source]
        for segment in self._segments:
            table.update(segment.stage.run(table, step=step))
            for name in segment.writes:
                row = _row(self._whole[name], self._sources[name], self._size, position)
                row.copy_(table[name])
        return {name: table[name] for name in self._live_out}

    def end(self) -> None:
        """Forget the caches."""
        self._whole = {}

    def _segment(
        self,
        nodes: Sequence[Node],
        outside: dict[str, TensorType],
        later: frozenset[str],
        known: Tensors,
        device: torch.device | None,
    ) -> _Segment:
        """Make a segment; its results are outside for those after it."""
        results = result_types(nodes)
        writes = tuple(name for name in results if name in self.caches)
        stage = Stage(
            nodes, types=outside, read_later={*later, *writes}, known=known, device=device
        )
        outside.update(results)
        return _Segment(stage, writes)


def _cut(rows: RowProgram) -> list[list[Node]]:
    """Cut the nodes where one reads a cache into which an earlier one of its segment writes."""
    segments: list[list[Node]] = [[]]
    written: set[str] = set()
    for node in rows.nodes:
        read = {rows.caches[name][0] for name in node.operands if name in rows.caches}
        if not written.isdisjoint(read):
            segments.append([])
            written = set()
        segments[-1].append(node)
        written.update(node.results)
    return segments


def _with_later_reads(
    segments: Sequence[Sequence[Node]], live_out: frozenset[str]
) -> list[tuple[Sequence[Node], frozenset[str]]]:
    """Return each segment with the names that are read after it."""
    found = []
    later = live_out
    for nodes in reversed(segments):
        found.append((nodes, later))
        later = later | {name for node in nodes for name in node.operands}
    return found[::-1]


def _cache_types(rows: RowProgram, size: int) -> dict[str, TensorType]:
    """Return the type of each cache: that of its rows, with all positions."""
    types, found = result_types(rows.nodes), {}
    for name, (source, axis) in rows.caches.items():
        shape = list(types[source].shape)
        shape[axis.dim] *= size
        found[name] = TensorType(tuple(shape), types[source].dtype)
    return found


def _narrow(type_: TensorType, axis: Axis, size: int) -> TensorType:
    shape = list(type_.shape)
    shape[axis.dim] //= size
    return TensorType(tuple(shape), type_.dtype)


def _row(tensor: torch.Tensor, axis: Axis, size: int, position: int) -> torch.Tensor:
    """Return the part of a tensor that belongs to a position, as a view where that is possible."""
    if axis.inner == 1 and tensor.shape[axis.dim] == size:
        return tensor.narrow(axis.dim, position, 1)
    shape = (*tensor.shape[: axis.dim], -1, size, axis.inner, *tensor.shape[axis.dim + 1 :])
    row = tensor.reshape(shape).select(axis.dim + 1, position)
    return row.flatten(axis.dim, axis.dim + 1)
