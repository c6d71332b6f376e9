"""Layer normalization and its gradient by oneDNN.

PyTorch's return memory of their own, and its gradient takes mean and variance from a normalization
that is thrown away; on an EPYC oneDNN takes a third of the time for the two together.
"""

import functools
from dataclasses import dataclass

import torch

from appliance.numerics.onednn.library import Handle, Library, Primitive, Unused, load_library

_FORWARD, _FORWARD_FOR_BACKWARD, _BACKWARD = 96, 64, 128
"""Kinds of propagation. The first gives no mean and no variance."""

_NO_PARAMETERS, _SCALE_AND_SHIFT = 0, 2 | 4
"""Flags of a normalization."""

_SOURCE, _RESULT, _MEAN, _VARIANCE, _SCALE, _SHIFT = 1, 17, 49, 50, 51, 52
_RESULT_GRADIENT, _SOURCE_GRADIENT, _SCALE_GRADIENT, _SHIFT_GRADIENT = 145, 129, 255, 256
"""Arguments of its primitives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gradient:
    """A gradient of given sizes, for one call at a time.

    Attributes:
        statistics: Gives mean and variance of each row, and the normalized rows.
        gradient: Gives the gradients.
        mean: Of each row.
        variance: Of each row.
    """

    statistics: Primitive
    gradient: Primitive
    mean: torch.Tensor
    variance: torch.Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layouts:
    """How the tensors of a normalization lie.

    Attributes:
        matrix: What is normalized, and the result.
        row: A parameter.
        statistics: Mean or variance of each row.
    """

    matrix: Handle
    row: Handle
    statistics: Handle


class LayerNorm:
    """Normalizations of rows in the memory of the processor; any thread may ask for one.

    Tensors lie row by row without gaps and are float32; what else is given is refused. As many
    elements as the parameters have are one row.

    Args:
        library: oneDNN.
    """

    def __init__(self, library: Library) -> None:
        self._library = library
        self._forward: Unused[Primitive] = Unused()
        self._backward: Unused[_Gradient] = Unused()

    def try_forward(
        self,
        out: torch.Tensor,
        x: torch.Tensor,
        gamma: torch.Tensor,
        beta: torch.Tensor,
        *,
        epsilon: float,
    ) -> bool:
        """Write `(x - mean(x)) / sqrt(variance(x) + epsilon) * gamma + beta`, row by row.

        Source: Ba, Kiros and Hinton, Layer Normalization, 2016, equations 3 and 4.

        Args:
            out: Receives it; as many elements as x.
            x: (..., row).
            gamma: Row.
            beta: Row.
            epsilon: Keeps from dividing by zero.

        Returns:
            Whether the result is there; if not, nothing was done.

        Raises:
            InternalError: The library refuses a call.
        """
        if not _are_fit(out, x, gamma, beta):
            return False
        sizes = x.numel() // gamma.numel(), gamma.numel()
        key = (sizes, epsilon, torch.get_num_threads())
        primitive = self._forward.take(key, lambda: self._prepare_forward(*sizes, epsilon))
        if primitive is None:
            return False
        self._library.run(primitive, x, out, gamma, beta)
        self._forward.give_back(key, primitive)
        return True

    def try_backward(
        self,
        gradients: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
        dy: torch.Tensor,
        x: torch.Tensor,
        gamma: torch.Tensor,
        beta: torch.Tensor,
        *,
        epsilon: float,
    ) -> bool:
        """Write the gradients of x, gamma and beta, which overlap nothing that is read.

        Args:
            gradients: Receive them; as many elements as each of the three.
            dy: Gradient of the result; as many elements as x.
            x: (..., row), what was normalized.
            gamma: Row.
            beta: Row.
            epsilon: As it was.

        Returns:
            Whether the results are there; if not, nothing was done.

        Raises:
            InternalError: The library refuses a call.
        """
        dx, dgamma, dbeta = gradients
        if not _are_fit(dx, dgamma, dbeta, dy, x, gamma, beta):
            return False
        sizes = x.numel() // gamma.numel(), gamma.numel()
        key = (sizes, epsilon, torch.get_num_threads())
        made = self._backward.take(key, lambda: self._prepare_backward(*sizes, epsilon))
        if made is None:
            return False
        mean, variance = made.mean, made.variance
        # The normalized rows are not wanted, and their place is written over by the gradient.
        self._library.run(made.statistics, x, dx, mean, variance)
        self._library.run(made.gradient, x, dy, mean, variance, gamma, beta, dx, dgamma, dbeta)
        self._backward.give_back(key, made)
        return True

    def _prepare_forward(self, rows: int, columns: int, epsilon: float) -> Primitive | None:
        at = self._layouts(rows, columns)
        description = self._describe(at, _FORWARD, epsilon, _SCALE_AND_SHIFT)
        if description is None:
            return None
        layouts = {_SOURCE: at.matrix, _RESULT: at.matrix, _SCALE: at.row, _SHIFT: at.row}
        return self._library.primitive(description, layouts)

    def _layouts(self, rows: int, columns: int) -> _Layouts:
        return _Layouts(
            matrix=self._library.layout((rows, columns), (columns, 1)),
            row=self._library.layout((columns,), (1,)),
            statistics=self._library.layout((rows,), (1,)),
        )

    def _describe(self, at: _Layouts, kind: int, epsilon: float, flags: int) -> Handle | None:
        return self._library.description(
            "dnnl_layer_normalization_forward_primitive_desc_create",
            *(self._library.engine, kind, at.matrix, at.matrix, at.statistics),
            *(epsilon, flags, self._library.attributes),
        )

    def _prepare_backward(self, rows: int, columns: int, epsilon: float) -> _Gradient | None:
        library, at = self._library, self._layouts(rows, columns)
        matrix, row, statistics = at.matrix, at.row, at.statistics
        forward = self._describe(at, _FORWARD_FOR_BACKWARD, epsilon, _NO_PARAMETERS)
        if forward is None:
            return None
        backward = library.description(
            "dnnl_layer_normalization_backward_primitive_desc_create",
            *(library.engine, _BACKWARD, matrix, matrix, matrix, statistics),
            *(epsilon, _SCALE_AND_SHIFT, forward, library.attributes),
        )
        if backward is None:
            return None
        found = {_MEAN: statistics, _VARIANCE: statistics}
        gradients = {
            _SOURCE: matrix,
            _RESULT_GRADIENT: matrix,
            **found,
            _SCALE: row,
            _SHIFT: row,
            _SOURCE_GRADIENT: matrix,
            _SCALE_GRADIENT: row,
            _SHIFT_GRADIENT: row,
        }
        return _Gradient(
            statistics=library.primitive(forward, {_SOURCE: matrix, _RESULT: matrix, **found}),
            gradient=library.primitive(backward, gradients),
            mean=torch.empty(rows),
            variance=torch.empty(rows),
        )


def _are_fit(*tensors: torch.Tensor) -> bool:
    return all(
        each.is_cpu and each.dtype is torch.float32 and each.is_contiguous() for each in tensors
    )


@functools.cache
def find_layer_norm() -> LayerNorm | None:
    """Return layer normalization by oneDNN; None where there is no such library."""
    library = load_library()
    return None if library is None else LayerNorm(library)
