"""Nodes made ready to run on a table that holds more than they read."""

import threading
from collections.abc import Collection, Mapping, Sequence

import torch

from appliance.core.ir.graph import Node
from appliance.core.ir.tensors import TensorType
from appliance.numerics.devices import to_device
from appliance.numerics.programs.pool import TensorPool
from appliance.numerics.programs.program import Program
from appliance.streams.torch_views import Tensors


class Stage:
    """A program, what it reads and what it leaves.

    Args:
        nodes: The computation.
        types: Type of every value from outside, and of others.
        read_later: Names of values; those among the results are kept.
        known: Values that never change, and others.
        written: Names of the results that are written to given tensors.
        pool: Where results are computed; None leaves that to torch.
        device: Where it runs; None is the processor.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        *,
        types: Mapping[str, TensorType],
        read_later: Collection[str],
        known: Tensors,
        written: Collection[str] = (),
        pool: TensorPool | None = None,
        device: torch.device | None = None,
    ) -> None:
        self.types = result_types(nodes)
        self._results = self.types.keys() & frozenset(read_later)
        outside = {name for node in nodes for name in node.operands} - self.types.keys()
        self._reads = frozenset({*outside, *written} - self.types.keys())
        self._program = Program(
            nodes,
            types={name: types[name] for name in outside},
            live_out=self._results,
            known={name: known[name] for name in outside & known.keys()},
            written=written,
            pool=pool,
            device=device,
        )

    def run(self, values: Tensors, *, step: int, out: Tensors | None = None) -> Tensors:
        """Return what is kept of the results; the table stays as it is.

        Args:
            values: By name, at least what the nodes read from outside.
            step: Number for random operations.
            out: Tensors into which results are written, by name.
        """
        table = {name: values[name] for name in self._reads}
        self._program.run(table, step=step, out=out)
        return {name: table[name] for name in self._results}


class KeptLoads:
    """What layer steps load, kept for all strands of a system: copies, or in place.

    Args:
        device: Where it is kept; None is the processor.
    """

    def __init__(self, device: torch.device | None = None) -> None:
        self._device = device
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[int, torch.Tensor]] = {}

    def take(self, name: str, tensor: torch.Tensor, *, age: int, in_place: bool) -> torch.Tensor:
        """Return what is kept of a load.

        Args:
            tensor: Its value now.
            age: Grows when it may have changed.
            in_place: Whether the tensor stays readable.
        """
        with self._lock:
            found = self._kept.get(name)
            if found is not None and found[0] == age:
                return found[1]
            kept = tensor if in_place else tensor.clone()
            if self._device is not None:
                kept = to_device(kept, self._device)
            self._kept[name] = (age, kept)
            return kept


def result_types(nodes: Sequence[Node]) -> dict[str, TensorType]:
    """Return the type of every result."""
    return {
        name: type_ for node in nodes for name, type_ in zip(node.results, node.types, strict=True)
    }
