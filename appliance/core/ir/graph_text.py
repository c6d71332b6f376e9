"""A graph as text, for people and for tests; parsing what was printed gives an equal graph.

One line for each argument, node and result, values written `%name`, attributes as JSON:

    graph {"cs.fp16_type": "float16"}
    argument %arg0 : tensor<16x8xf32> {"resource_name": "state.model.fc1.weight", ...}
    %3 = MatMul(%1, %0) {"transpose_a": false} : tensor<4x16xf16> @ {"module": "fc1", ...}
    result %24
    result %15 {"output_name": "output_loss"}

`appliance.core.plans.plan_text` uses the same line for a node.
"""

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from appliance.core.errors import InternalError
from appliance.core.ir.graph import (
    UNKNOWN_LOCATION,
    Argument,
    Attribute,
    Direction,
    Frame,
    Graph,
    Location,
    Node,
    Result,
)
from appliance.core.ir.tensors import Constant, DType, TensorType

_TYPE = re.compile(r"tensor<((?:[0-9]+x)*)([a-z0-9]+)>")
_OUTLINE = re.compile(r"([^=]*?) ?= ([A-Za-z0-9_.]+)\(([^)]*)\)")
_NO_ATTRIBUTES: Mapping[str, Attribute] = {}
_NODE = re.compile(r"([^=]*?) ?= ([A-Za-z0-9_.]+)\(([^)]*)\) (\{.*\}) : (\S.*?)(?: @ (\{.*\}))?$")


def print_type(type_: TensorType) -> str:
    """Return a type as `tensor<4x8xf32>`."""
    return str(type_)


@lru_cache(maxsize=4096)
def parse_type(text: str) -> TensorType:
    """Read a type as `print_type` writes it.

    Raises:
        InternalError: The text is no type.
    """
    found = _TYPE.fullmatch(text)
    if found is None:
        raise InternalError(f"{text!r} is no tensor type.")
    sizes = tuple(int(size) for size in found.group(1).split("x")[:-1])
    return TensorType(sizes, DType(found.group(2)))


def print_attributes(attributes: Mapping[str, Attribute]) -> str:
    """Return attributes as one line of JSON; vectors are lists, constants are objects."""
    if not attributes:
        return "{}"
    return json.dumps({name: _to_json(value) for name, value in attributes.items()})


def parse_attributes(text: str) -> dict[str, Attribute]:
    """Read attributes as `print_attributes` writes them."""
    if text == "{}":
        return {}
    return {name: _from_json(value) for name, value in json.loads(text).items()}


def _to_json(value: Attribute) -> object:
    if isinstance(value, Constant):
        return {"type": print_type(value.type), "data": value.data.hex()}
    return list(value) if isinstance(value, tuple) else value


def _from_json(value: object) -> Attribute:
    match value:
        case {"type": str(type_), "data": str(data)}:
            return Constant(parse_type(type_), bytes.fromhex(data))
        case list():
            return tuple(value)
        case bool() | int() | float() | str():
            return value
        case _:
            raise InternalError(f"{value!r} is no attribute value.")


def print_values(names: Iterable[str]) -> str:
    """Return names as `%a, %b`."""
    return ", ".join([f"%{name}" for name in names])


def parse_values(text: str, names: Mapping[str, str] = {}) -> tuple[str, ...]:
    """Read names as `print_values` writes them; those that are in `names` are the objects there."""
    if not text:
        return ()
    return tuple([names.get(name[1:]) or name[1:] for name in text.split(", ")])


class LocationCodec:
    """Prints and parses locations, each distinct one once."""

    def __init__(self) -> None:
        self._printed: dict[int, tuple[Location, str]] = {}
        self._parsed: dict[str, Location] = {}

    def print(self, location: Location) -> str:
        """Return a location as one line of JSON."""
        found = self._printed.get(id(location))
        if found is not None:
            return found[1]
        stack = [[frame.function, frame.file, frame.line] for frame in location.frames]
        fields = {
            "module": location.module,
            "direction": location.direction.value if location.direction else "",
            "operation": location.operation,
            "frames": stack,
        }
        text = json.dumps({name: value for name, value in fields.items() if value})
        self._printed[id(location)] = (location, text)
        return text

    def parse(self, text: str) -> Location:
        """Read a location as `print` writes it."""
        found = self._parsed.get(text)
        if found is None:
            fields = json.loads(text)
            direction = fields.get("direction")
            found = self._parsed[text] = Location(
                module=fields.get("module", ""),
                direction=Direction(direction) if direction else None,
                operation=fields.get("operation", ""),
                frames=tuple(
                    Frame(function=function, file=file, line=line)
                    for function, file, line in fields.get("frames", ())
                ),
            )
        return found


def print_node(node: Node, locations: LocationCodec | None = None) -> str:
    """Return a node as one line.

    Args:
        locations: Prints where the node comes from; None leaves that out.
    """
    types = "; ".join(map(str, node.types)) or "none"
    line = (
        f"{print_values(node.results)} = {node.op}({print_values(node.operands)}) "
        f"{print_attributes(node.attributes)} : {types}"
    )
    if locations is None or node.location is UNKNOWN_LOCATION:
        return line
    return f"{line} @ {locations.print(node.location)}"


def parse_node(line: str, locations: LocationCodec, names: Mapping[str, str] = {}) -> Node:
    """Read a node as `print_node` writes it.

    Args:
        line: The node.
        locations: Reads where it comes from.
        names: Names that exist as objects already.

    Raises:
        InternalError: The line is no node.
    """
    found = _NODE.match(line)
    if found is None:
        raise InternalError(f"{line[:80]!r} is no node.")
    results, op, operands, attributes, types, location = found.groups()
    return Node(
        op=sys.intern(op),
        operands=parse_values(operands, names),
        results=parse_values(results, names),
        types=tuple(map(parse_type, types.split("; "))) if types != "none" else (),
        attributes=parse_attributes(attributes),
        location=locations.parse(location) if location else UNKNOWN_LOCATION,
    )


def parse_outline(line: str, names: Mapping[str, str]) -> Node:
    """Parse the operation, operands and results of a node, as `print_node` writes it.

    Raises:
        InternalError: The line is no node.
    """
    found = _OUTLINE.match(line)
    if found is None:
        raise InternalError(f"{line[:80]!r} is no node.")
    results, op, operands = found.groups()
    return Node(
        op=sys.intern(op),
        operands=parse_values(operands, names),
        results=parse_values(results, names),
        types=(),
        attributes=_NO_ATTRIBUTES,
    )


def print_graph(graph: Graph) -> str:
    """Return a graph as text."""
    return "\n".join(_graph_lines(graph)) + "\n"


def _graph_lines(graph: Graph) -> Iterator[str]:
    locations = LocationCodec()
    yield f"graph {print_attributes(graph.attributes)}"
    for argument in graph.arguments:
        fields: dict[str, Attribute | None] = {
            "resource_name": argument.resource_name,
            "aliased_result": argument.aliased_result,
            "input_name": argument.input_name,
        }
        known = {name: value for name, value in fields.items() if value is not None}
        yield f"argument %{argument.name} : {argument.type} {print_attributes(known)}"
    for node in graph.nodes:
        yield print_node(node, locations)
    for result in graph.results:
        output = {"output_name": result.output_name} if result.output_name is not None else {}
        yield f"result %{result.value} {json.dumps(output)}"


def parse_graph(text: str) -> Graph:
    """Read a graph as `print_graph` writes it.

    Raises:
        InternalError: The text is no graph.
    """
    try:
        return _read_graph(text)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise InternalError(f"The text is no graph: {type(error).__name__} {error}.") from error


def _read_graph(text: str) -> Graph:
    attributes: dict[str, Attribute] = {}
    arguments: list[Argument] = []
    nodes: list[Node] = []
    results: list[Result] = []
    locations = LocationCodec()
    for line in text.splitlines():
        kind, _, rest = line.partition(" ")
        match kind:
            case "graph":
                attributes = parse_attributes(rest)
            case "argument":
                name, _, type_, fields = rest.split(" ", 3)
                arguments.append(
                    Argument(name=name[1:], type=parse_type(type_), **json.loads(fields))
                )
            case "result":
                name, _, fields = rest.partition(" ")
                results.append(Result(value=name[1:], **json.loads(fields)))
            case _:
                nodes.append(parse_node(line, locations))
    return Graph(
        arguments=tuple(arguments),
        nodes=tuple(nodes),
        results=tuple(results),
        attributes=attributes,
    )
