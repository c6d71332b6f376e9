"""Parts of a program that are computed alike: the same nodes under other names.

The layers of a model are, as a rule, copies of one another. A `ProgramTable` keeps one of all parts
that are alike, under the names of the first of them, and says for every other part which name
stands for which; so one `Program` serves them all.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from appliance.core.ir.graph import Attribute, Node
from appliance.core.ir.tensors import Constant, TensorType
from appliance.numerics.programs.pool import TensorPool
from appliance.numerics.programs.program import Program


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramSource:
    """What a program is made of; see `Program`.

    Attributes:
        nodes: The computation, in order.
        types: Type of every value that the nodes read from outside.
        live_out: Names of the values to keep.
        written: Names of the values that may be written to given tensors.
        sparse: Weights that come as their non-zeros.
        gradients: Results at the pattern of such a weight, by the weight.
    """

    nodes: Sequence[Node]
    types: Mapping[str, TensorType]
    live_out: Collection[str]
    written: Sequence[str]
    sparse: Collection[str] = ()
    gradients: Mapping[str, str] = field(default_factory=dict)

    def program(
        self,
        *,
        known: Mapping[str, torch.Tensor] | None = None,
        pool: TensorPool | None = None,
        device: torch.device | None = None,
    ) -> Program:
        """Return its program; see `Program` for the arguments."""
        return Program(
            self.nodes,
            types=self.types,
            live_out=self.live_out,
            known=known,
            written=self.written,
            pool=pool,
            device=device,
            sparse=self.sparse,
            gradients=self.gradients,
        )


class ProgramTable:
    """Collects parts; those that are alike are kept once.

    Args:
        known: Values from outside that are the same tensors in every run.
    """

    def __init__(self, known: Mapping[str, torch.Tensor]) -> None:
        self._known = known
        self._parts: list[ProgramSource] = []
        self._kept: dict[object, tuple[int, tuple[str, ...]]] = {}

    @property
    def parts(self) -> tuple[ProgramSource, ...]:
        """The parts that are kept, under the names that they came with."""
        return tuple(self._parts)

    def add(self, part: ProgramSource) -> tuple[int, dict[str, str]]:
        """Take in a part.

        Returns:
            The index of the kept part that is like it, and the name there for each name that the
            part mentions.
        """
        names = _names(part)
        key = self._key(part, names)
        if key not in self._kept:
            self._kept[key] = (len(self._parts), tuple(names))
            self._parts.append(part)
        index, kept_names = self._kept[key]
        return index, dict(zip(names, kept_names, strict=True))

    def _key(self, part: ProgramSource, names: Mapping[str, int]) -> object:
        """Return what two parts have in common that are alike."""
        nodes = tuple(
            (
                node.op,
                tuple([names[name] for name in node.operands]),
                tuple([names[name] for name in node.results]),
                node.types,
                frozenset((name, _exact(value)) for name, value in node.attributes.items()),
            )
            for node in part.nodes
        )
        outside = tuple(
            (names[name], type_, self._literal(name)) for name, type_ in part.types.items()
        )
        return (
            nodes,
            frozenset(outside),
            frozenset(names[name] for name in part.live_out if name in names),
            tuple(names[name] for name in part.written),
            frozenset(names[name] for name in part.sparse),
            frozenset((names[one], names[other]) for one, other in part.gradients.items()),
        )

    def _literal(self, name: str) -> object:
        """Return the bytes of a value that goes into machine code as a number."""
        value = self._known.get(name)
        if value is None:
            return None
        if not value.numel() or any(value.stride(axis) for axis in _long_axes(value)):
            return ""
        return value.reshape(-1)[0].numpy().tobytes()


def _long_axes(value: torch.Tensor) -> list[int]:
    return [axis for axis, length in enumerate(value.shape) if length != 1]


def _names(part: ProgramSource) -> dict[str, int]:
    """Number every name that a part mentions, in the order of first mention."""
    mentioned = dict.fromkeys(
        name for node in part.nodes for name in (*node.operands, *node.results)
    )
    mentioned.update(dict.fromkeys((*part.written, *part.gradients.values())))
    return {name: number for number, name in enumerate(mentioned)}


def _exact(value: Attribute) -> str | tuple[str, bytes]:
    """Return an attribute such that only what is the same to the bit is equal: -0.0 is not 0.0."""
    if isinstance(value, Constant):
        return (str(value.type), value.data)
    return f"{type(value).__name__} {value!r}"
