"""Computes layer steps: a program for each kind of them, a table of activations between them.

A value stays in the table until the last layer step that reads it. Loads are views of a broadcast
slot and are gone when their layer step ends; a result that may be a view of one and outlives the
layer step is copied out of the slot. The operation that produces a sum writes it into the gradient
slot. Layers that are copies of one another share their programs, so memory beside activations does
not grow with the model's depth.
"""

import copy
from dataclasses import dataclass

import torch

from appliance.core.errors import InternalError
from appliance.numerics.devices import to_device
from appliance.numerics.kernels.linear_algebra import has_native_bfloat16
from appliance.numerics.programs.pool import TensorPool
from appliance.numerics.programs.program import Program
from appliance.numerics.sparse.weight_products import parts_of
from appliance.streams.torch_views import Tensors
from workers.csx.wafer_program import LayerStepProgram, WaferProgram


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layer:
    """One layer step, ready to run.

    Attributes:
        program: Its nodes.
        to_copy: Results that may be views of its loads.
    """

    part: LayerStepProgram
    program: Program
    to_copy: tuple[str, ...]


class Executor:
    """The wafer part of a plan for one share of the batch.

    On a device other than the processor what a layer step loads is copied there, and its sums are
    copied from there into the gradient slot.

    Args:
        device: Where to compute; None is the processor.
    """

    def __init__(self, part: WaferProgram, device: torch.device | None = None) -> None:
        self._device = device
        self._pool: TensorPool | None = None
        if device is None:
            self._pool = TensorPool(is_narrow=has_native_bfloat16())
        self._constants = self._there(part.constants.tensors())
        programs = [
            each.program(known=self._constants, pool=self._pool, device=device)
            for each in part.parts
        ]
        self._layers = tuple([_layer(layer, programs[layer.part]) for layer in part.layers])
        self._table: Tensors = {}
        self._step = 0

    @property
    def activations(self) -> Tensors:
        """The values that are resident now, by name."""
        return self._table

    def begin(self, step: int, batch: Tensors) -> None:
        """Begin a step, whose number is for random operations, with its batch tensors by name."""
        self._step = step
        self._table = {**self._constants, **self._there(batch)}

    def compute(self, layer_step: int, loads: Tensors, sums: Tensors) -> None:
        """Run one layer step.

        Args:
            layer_step: Its index; they run in order.
            loads: What it loads, by name, of sparse weights their parts; may be reused once this
                returns.
            sums: Where to write what it sends, by the name of the total; of a sum that is given at
                a pattern a vector of its values.

        Raises:
            InternalError: An operation failed.
        """
        ready, table = self._layers[layer_step], self._table
        layer = ready.part
        values = self._there({inner: loads[name] for name, inner in layer.loads})
        for name, inner in layer.sparse_loads:
            parts = zip(parts_of(inner), parts_of(name), strict=True)
            values.update({there: loads[here] for there, here in parts})
        for name, inner in layer.reads:
            values[inner] = table[name]
        for name, inner in layer.takes:
            values[inner] = table.pop(name)
        out = {inner: sums[total] for total, inner in layer.sums}
        try:
            ready.program.run(values, step=self._step, out=out)
        except InternalError as error:
            raise InternalError(f"Layer step {layer.name!r}: {error}") from error
        for first, again in layer.repeated_sums:
            sums[again].copy_(sums[first])
        for name, inner in layer.results:
            table[name] = values[inner]
        for name in ready.to_copy:
            table[name] = self._copy(table[name])

    def end(self) -> None:
        """Forget everything of the step."""
        self._table = {}

    def _there(self, tensors: Tensors) -> Tensors:
        """Return tensors where this computes."""
        if self._device is None:
            return tensors
        return {name: to_device(tensor, self._device) for name, tensor in tensors.items()}

    def _copy(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.clone() if self._pool is None else self._pool.copy(tensor)

    def twin(self) -> "Executor":
        """Return an executor with activations of its own and everything else in common."""
        twin = copy.copy(self)
        twin._table = {}
        return twin


def _layer(part: LayerStepProgram, program: Program) -> _Layer:
    borrowers = program.borrowers([inner for _, inner in part.loads])
    return _Layer(
        part=part,
        program=program,
        to_copy=tuple(name for name, inner in part.results if inner in borrowers),
    )


def set_compute_threads(num_threads: int) -> None:
    """Fix how many threads an operation uses; the bits of a sum depend on it."""
    torch.set_num_threads(num_threads)
