"""Small graphs for tests, built op by op."""

from dataclasses import dataclass, field

import numpy as np

from appliance.core.ir.graph import (
    UNKNOWN_LOCATION,
    Argument,
    Attribute,
    Direction,
    Graph,
    Location,
    Node,
    Result,
    verify,
)
from appliance.core.ir.ops import SPECS, verify_ops
from appliance.core.ir.tensors import Constant, DType, TensorType


def constant(values, dtype: DType = DType.F32) -> Constant:
    """Return a constant with the given values."""
    array = np.asarray(values, dtype=dtype.container)
    return Constant(TensorType(array.shape, dtype), array.tobytes())


def at(module: str, direction: str = "fwd") -> Location:
    """Return a location in a module."""
    return Location(module=module, direction=Direction(direction))


@dataclass
class GraphBuilder:
    """Collects arguments and nodes; shapes are inferred where the operation's rule can."""

    arguments: list[Argument] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    types: dict[str, TensorType] = field(default_factory=dict)
    location: Location = UNKNOWN_LOCATION
    attributes: dict[str, Attribute] = field(default_factory=dict)

    def _argument(self, name: str, shape, dtype: DType, **names) -> str:
        type_ = TensorType(tuple(shape), dtype)
        self.arguments.append(Argument(name=name, type=type_, **names))
        self.types[name] = type_
        return name

    def batch(self, *shape: int, name: str = "x", dtype: DType = DType.F32) -> str:
        """Add a batch tensor."""
        return self._argument(name, shape, dtype, input_name=f"input_{name}")

    def state(
        self, *shape: int, name: str = "w", dtype: DType = DType.F32, resource: str = ""
    ) -> str:
        """Add a state tensor."""
        return self._argument(name, shape, dtype, resource_name=resource or f"state.model.{name}")

    def const(self, values, dtype: DType = DType.F32) -> str:
        """Add a constant."""
        value = constant(values, dtype)
        return self.op("Const", shape=value.type.shape, dtype=dtype, value=value)

    def splat(self, value, *shape: int, dtype: DType = DType.F32) -> str:
        """Add a constant with one value everywhere."""
        type_ = TensorType(shape, dtype)
        data = np.asarray(value, dtype=dtype.container).tobytes()
        return self.op("Const", shape=shape, dtype=dtype, value=Constant(type_, data))

    def op(
        self, op: str, *operands: str, shape=None, dtype=None, name: str = "", **attributes
    ) -> str:
        """Add a node with one result and return its name."""
        return self.ops(
            op,
            *operands,
            shapes=shape and [shape] if shape != () else [()],
            dtypes=dtype and [dtype],
            names=[name] if name else None,
            **attributes,
        )[0]

    def ops(self, op, *operands, shapes=None, dtypes=None, names=None, **attributes) -> list[str]:
        """Add a node with any number of results and return their names."""
        operand_types = [self.types[name] for name in operands]
        if shapes is None:
            probe = Node(op=op, operands=operands, results=(), types=(), attributes=attributes)
            shapes = SPECS[op].infer(probe, operand_types)
        dtypes = dtypes or [operand_types[0].dtype] * len(shapes)
        types = tuple(TensorType(tuple(s), d) for s, d in zip(shapes, dtypes, strict=True))
        names = names or [f"v{len(self.types) + index}" for index in range(len(types))]
        self.nodes.append(
            Node(
                op=op,
                operands=operands,
                results=tuple(names),
                types=types,
                attributes=attributes,
                location=self.location,
            )
        )
        self.types.update(zip(names, types, strict=True))
        return list(names)

    def output(self, value: str, name: str = "") -> None:
        """Give a value to the user."""
        self.results.append(Result(value=value, output_name=name or f"output_{value}"))

    def update(self, state: str, value: str) -> None:
        """Make a value the new value of a state tensor."""
        index = next(i for i, argument in enumerate(self.arguments) if argument.name == state)
        old = self.arguments[index]
        self.arguments[index] = Argument(
            name=old.name,
            type=old.type,
            resource_name=old.resource_name,
            aliased_result=len(self.results),
        )
        self.results.append(Result(value=value))

    def graph(self) -> Graph:
        """Return the graph, verified."""
        graph = Graph(
            arguments=tuple(self.arguments),
            nodes=tuple(self.nodes),
            results=tuple(self.results),
            attributes=self.attributes,
        )
        verify(graph)
        verify_ops(graph)
        return graph
