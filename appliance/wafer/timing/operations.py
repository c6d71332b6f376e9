"""What a wafer is asked to do in one step, as plain records and as columns of numbers.

A `Operation` says how much work one operation of a layer step is, in terms of the way tensors lie
on the wafer: tokens (batch times sequence) along the rows of the grid, features along its columns.
It says nothing about time. `OperationTable` holds the same as numpy columns, so that a program of
10,000 operations is priced at once.

Two sources make records: `program_operations` from the compiler's plan and `transformer` from a
description of a model. Both agree on the meaning of the fields.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray


class Kind(IntEnum):
    """Kernels that differ in their formula."""

    MATMUL = 0
    """Tokens times a streamed weight: y[tokens, outer] = x[tokens, inner] w[inner, outer]."""
    WEIGHT_GRADIENT = 1
    """dw[inner, outer] = x[tokens, inner]^T dy[tokens, outer]."""
    SCORES = 2
    """A batched product within sequences whose result is as wide as the sequence (q k^T)."""
    CONTEXT = 3
    """A batched product within sequences whose operand is as wide as the sequence (p v)."""
    ELEMENTWISE = 4
    """Simple arithmetic on each element: `work` instructions per element."""
    NORMALISATION = 5
    """Statistics over the features, then arithmetic on each element."""
    REDUCTION = 6
    """A sum over the tokens (bias gradient), along the columns of the grid."""
    LOOKUP = 7
    """Rows of a streamed table picked by index, or their gradient."""
    LAYOUT = 8
    """A change of shape that moves elements between PEs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation of one layer step, for a whole global batch or one system's share of it.

    Attributes:
        name: For reports, as in `MatMul`.
        kind: Which kernel.
        layer_step: Index of the layer step it belongs to.
        tokens: Rows of the tensor that lie along the grid's rows; grows with the batch.
        inner: Features read (contracted), along the grid's columns.
        outer: Features made; for elementwise kinds equal to `inner`.
        sequence: Length of the other side of a batched product; 0 for other kinds.
        queries: Tokens that share those keys, which is one sequence; as long as `sequence` if 0.
        num_heads: Independent products per token of a batched product; else 1.
        is_causal: Whether a token of a batched product meets only the tokens up to itself.
        bits: Width of the operands.
        work: Instructions per element of the elementwise kinds; 1 for others.
        density: Non-zero fraction of the streamed weight.
        repeat: How often it is done (recomputed scores count twice).
    """

    name: str
    kind: Kind
    layer_step: int
    tokens: float
    inner: int
    outer: int
    sequence: int = 0
    queries: int = 0
    num_heads: int = 1
    is_causal: bool = False
    bits: int = 16
    work: float = 1.0
    density: float = 1.0
    repeat: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerTraffic:
    """What one layer step moves over the system's external links, and what it holds.

    Attributes:
        name: As in `blocks.3.fwd`.
        module: Module path, shared by the forward and backward steps of one layer.
        is_backward: Whether it belongs to the backward pass.
        weight_elements: Weights streamed in.
        gradient_elements: Gradient elements sent out.
        activation_bytes: Boundary activations that leave or return when they do not fit, for the
            batch that the operations speak of.
        density: Non-zero fraction of the streamed weights.
        is_frozen: Whether the gradients are those of dense adapters beside frozen weights.
    """

    name: str
    module: str
    is_backward: bool
    weight_elements: float
    gradient_elements: float
    activation_bytes: float = 0.0
    density: float = 1.0
    is_frozen: bool = False

    @property
    def gradient_density(self) -> float:
        """Non-zero fraction of the gradients."""
        return 1.0 if self.is_frozen else min(1.0, self.density)


_FloatColumn = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationTable:
    """Operations as columns, all of the same length; names as in `Operation`."""

    kind: NDArray[np.int64]
    layer_step: NDArray[np.int64]
    tokens: _FloatColumn
    inner: _FloatColumn
    outer: _FloatColumn
    sequence: _FloatColumn
    queries: _FloatColumn
    num_heads: _FloatColumn
    is_causal: _FloatColumn
    bits: _FloatColumn
    work: _FloatColumn
    density: _FloatColumn
    repeat: _FloatColumn

    @classmethod
    def from_operations(cls, operations: Sequence[Operation]) -> "OperationTable":
        """Turn records into columns, in order."""
        rows = [
            (
                int(op.kind),
                op.layer_step,
                op.tokens,
                op.inner,
                op.outer,
                op.sequence,
                op.queries or op.sequence,
                op.num_heads,
                op.is_causal,
                op.bits,
                op.work,
                op.density,
                op.repeat,
            )
            for op in operations
        ]
        columns = np.array(rows, dtype=np.float64).reshape(len(rows), len(fields(cls))).T
        named = dict(zip((field.name for field in fields(cls)), columns, strict=True))
        kind, layer_step = (named.pop(name).astype(np.int64) for name in ("kind", "layer_step"))
        return cls(kind=kind, layer_step=layer_step, **named)

    def __len__(self) -> int:
        return len(self.kind)

    def for_batch(self, batch: float) -> "OperationTable":
        """Return the same operations for `batch` times the tokens."""
        return replace(self, tokens=self.tokens * batch)

    def pairs_share(self) -> _FloatColumn:
        """Return the part of all (query, key) pairs that a batched product computes."""
        half = (1.0 + 1.0 / np.maximum(self.sequence, 1.0)) / 2.0
        return np.where(self.is_causal > 0, half, 1.0)

    def macs(self) -> _FloatColumn:
        """Return the dense multiply-adds of each operation, for all its tokens, without repeats.

        Pairs that a causal product skips are not counted.
        """
        dense = self.tokens * self.inner * self.outer
        batched = self.tokens * self.sequence * self.inner * self.pairs_share()
        is_dense = (self.kind == Kind.MATMUL) | (self.kind == Kind.WEIGHT_GRADIENT)
        is_batched = (self.kind == Kind.SCORES) | (self.kind == Kind.CONTEXT)
        return np.where(is_dense, dense, np.where(is_batched, batched, 0.0))
