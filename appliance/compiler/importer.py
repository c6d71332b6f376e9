"""The program text of a compile request, read into a `Graph`.

The text is one module with one straight-line function. Every operation is accepted here, whatever
its name: what can be computed is decided later, with everything that is refused in one message.
Operation names lose their dialect (`cirh.MatMul` -> `MatMul`); types stay as written.
"""

import re
from dataclasses import dataclass, field

from appliance.compiler.passes.position_loop import with_position_loop
from appliance.compiler.syntax.attributes import AttributeDict, parse_dense, parse_dict, parse_value
from appliance.compiler.syntax.cursor import Cursor
from appliance.compiler.syntax.locations import LocationTable, Reference
from appliance.compiler.syntax.tensor_types import parse_tensor_type
from appliance.core.errors import InternalError, ProgramError
from appliance.core.ir.graph import Argument, Attribute, Graph, Node, Result, verify
from appliance.core.ir.tensors import TensorType

_VALUE = re.compile(r"%([A-Za-z0-9_$.-]+(?:#[0-9]+)?)")
_PACK = re.compile(r"%([A-Za-z0-9_$.-]+)(?::([0-9]+))?")
_OP_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$.]*")
_ALIAS = re.compile(r"#[A-Za-z0-9_$.]+")
_RETURNS = frozenset({"return", "std.return", "func.return"})
_DIALECT = "cirh."
_SEGMENTS = "operand_segment_sizes"
"""How many operands each of an operation's operand groups has. Release 2.7 prints it where all
groups without operands come last, so that it says nothing that the operands do not."""


def import_program(text: str) -> Graph:
    """Read a program.

    Args:
        text: The module as the client's front end prints it, with or without locations.

    Returns:
        The graph, not yet in normal form; it passes `appliance.core.ir.graph.verify`.

    Raises:
        ProgramError: The text breaks the grammar, reads an undefined value or contradicts itself;
            the message names line and column.
    """
    if not text.strip():
        raise ProgramError(
            "The program text is empty: the client could not lower the model.",
            hint="Its own reason is in traceback_*.json under the artifact directory's executors. "
            "If none is there, look at the directory's path: the client gives it to a shell "
            "without quotes, so a space or a quote in it needs another directory or artifact_dir.",
        )
    return _Importer(Cursor(text)).run()


@dataclass(slots=True)
class _Operation:
    """An operation as read, its location still a reference."""

    op: str
    operands: tuple[str, ...]
    results: tuple[str, ...]
    types: tuple[TensorType, ...]
    attributes: AttributeDict
    location: Reference


@dataclass(slots=True)
class _Function:
    """What has been read of the function so far."""

    arguments: list[tuple[str, TensorType, AttributeDict]] = field(default_factory=list)
    results: list[tuple[TensorType, AttributeDict]] = field(default_factory=list)
    attributes: AttributeDict = field(default_factory=dict)
    operations: list[_Operation] = field(default_factory=list)
    returned: tuple[str, ...] = ()


class _Importer:
    """One pass over the text."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._locations = LocationTable()
        self._types: dict[str, TensorType] = {}
        self._function: _Function | None = None

    def run(self) -> Graph:
        cursor = self._cursor
        while not cursor.at_end():
            if cursor.peek("#"):
                self._parse_alias()
            elif cursor.peek("module"):
                self._parse_module()
            elif cursor.peek("func"):
                self._parse_function()
            else:
                raise cursor.error("'module'")
        if self._function is None:
            raise cursor.error("a function")
        return self._build(self._function)

    def _parse_alias(self) -> None:
        cursor = self._cursor
        name = cursor.require(_ALIAS, "an alias").group()
        cursor.expect("=")
        if cursor.peek("loc"):
            self._locations.define(name, self._locations.parse(cursor))
        else:
            parse_value(cursor)

    def _parse_module(self) -> None:
        cursor = self._cursor
        cursor.expect("module")
        if cursor.accept("@"):
            cursor.identifier()
        if cursor.accept("attributes"):
            parse_dict(cursor)
        cursor.expect("{")
        while not cursor.accept("}"):
            if not cursor.peek("func"):
                raise cursor.error("'func' or '}'")
            self._parse_function()
        self._locations.parse_optional(cursor)

    def _parse_function(self) -> None:
        cursor = self._cursor
        if self._function is not None:
            raise cursor.problem("a second function; a program has one")
        function = self._function = _Function()
        name = cursor.identifier()
        if name not in ("func", "func.func"):
            raise cursor.error("'func'", position=cursor.position - len(name))
        for visibility in ("private", "public"):
            cursor.accept(visibility)
        cursor.expect("@")
        cursor.identifier("the function's name")
        self._parse_arguments(function)
        self._parse_result_types(function)
        if cursor.accept("attributes"):
            function.attributes = parse_dict(cursor)
        cursor.expect("{")
        self._parse_body(function)
        cursor.expect("}")
        self._locations.parse_optional(cursor)

    def _parse_arguments(self, function: _Function) -> None:
        cursor = self._cursor
        cursor.expect("(")
        while not cursor.accept(")"):
            start = cursor.position
            name = cursor.require(_VALUE, "an argument").group(1)
            cursor.expect(":")
            type_ = parse_tensor_type(cursor)
            attributes = parse_dict(cursor) if cursor.peek("{") else {}
            self._locations.parse_optional(cursor)
            self._define(name, type_, start)
            function.arguments.append((name, type_, attributes))
            if not cursor.accept(","):
                cursor.expect(")")
                break

    def _parse_result_types(self, function: _Function) -> None:
        cursor = self._cursor
        if not cursor.accept("->"):
            return
        if not cursor.accept("("):
            function.results.append((parse_tensor_type(cursor), {}))
            return
        while not cursor.accept(")"):
            type_ = parse_tensor_type(cursor)
            attributes = parse_dict(cursor) if cursor.peek("{") else {}
            function.results.append((type_, attributes))
            if not cursor.accept(","):
                cursor.expect(")")
                break

    def _parse_body(self, function: _Function) -> None:
        cursor = self._cursor
        while not cursor.peek("}"):
            start = cursor.position
            packs = self._parse_packs()
            is_generic = cursor.peek('"')
            name = (
                cursor.string() if is_generic else cursor.require(_OP_NAME, "an operation").group()
            )
            if name in _RETURNS:
                self._parse_return(function, is_generic=is_generic)
                return
            operation = self._parse_operation(name, packs, start, is_generic=is_generic)
            function.operations.append(operation)
        raise cursor.error("an operation or 'return'")

    def _parse_packs(self) -> list[tuple[str, int]]:
        cursor = self._cursor
        packs: list[tuple[str, int]] = []
        if not cursor.peek("%"):
            return packs
        while True:
            found = cursor.require(_PACK, "a value name")
            packs.append((found.group(1), int(found.group(2) or 1)))
            if not cursor.accept(","):
                break
        cursor.expect("=")
        return packs

    def _parse_operation(
        self, name: str, packs: list[tuple[str, int]], start: int, *, is_generic: bool
    ) -> _Operation:
        cursor = self._cursor
        results = tuple(
            pack if count == 1 else f"{pack}#{index}"
            for pack, count in packs
            for index in range(count)
        )
        attributes: AttributeDict = {}
        operands: tuple[str, ...] = ()
        types: tuple[TensorType, ...]
        if cursor.peek("dense<"):
            constant = parse_dense(cursor)
            attributes["value"], types = constant, (constant.type,)
        else:
            position = cursor.position
            operands = self._parse_operands(is_generic=is_generic)
            if cursor.peek("("):
                raise cursor.problem(f"{name} has a region, which is not supported")
            attributes = parse_dict(cursor) if cursor.peek("{") else {}
            self._check_segments(attributes.pop(_SEGMENTS, ()), operands, name, position)
            types = self._parse_signature(operands, len(results), position)
        op = name.removeprefix(_DIALECT)
        if op == "Const" and isinstance(attributes.get("value"), tuple):
            raise cursor.problem("write constants in the short form", position=start)
        if len(types) != len(results):
            raise cursor.problem(
                f"{name} defines {len(results)} values of {len(types)} types", position=start
            )
        for result, type_ in zip(results, types, strict=True):
            self._define(result, type_, start)
        location = self._locations.parse_optional(cursor)
        return _Operation(op, operands, results, types, attributes, location)

    def _check_segments(
        self, sizes: Attribute, operands: tuple[str, ...], name: str, position: int
    ) -> None:
        """Refuse operands that are not those of the operation's first groups, one of each."""
        groups = sizes if isinstance(sizes, tuple) else ()
        if groups != tuple(int(index < len(operands)) for index in range(len(groups))):
            raise self._cursor.problem(
                f"{name} has operands of groups {sizes}; supported is one for each of the first",
                position=position,
            )

    def _parse_operands(self, *, is_generic: bool) -> tuple[str, ...]:
        cursor = self._cursor
        if is_generic:
            cursor.expect("(")
            operands = () if cursor.peek(")") else self._parse_values()
            cursor.expect(")")
            return operands
        return self._parse_values() if cursor.peek("%") else ()

    def _parse_values(self) -> tuple[str, ...]:
        cursor = self._cursor
        names: list[str] = []
        while True:
            start = cursor.position
            name = cursor.require(_VALUE, "a value").group(1)
            if name.endswith("#0") and name not in self._types:
                name = name[:-2]
            if name not in self._types:
                raise cursor.problem(f"%{name} is not defined", position=start)
            names.append(name)
            if not cursor.accept(","):
                return tuple(names)

    def _parse_signature(
        self, operands: tuple[str, ...], num_results: int, position: int
    ) -> tuple[TensorType, ...]:
        """Read the types of operands and results; `T` alone and `T -> R` stand for all operands."""
        cursor = self._cursor
        cursor.expect(":")
        if cursor.peek("("):
            declared = self._parse_type_list()
            cursor.expect("->")
            results = self._parse_type_list()
        else:
            type_ = parse_tensor_type(cursor)
            declared = (type_,) * len(operands)
            results = self._parse_type_list() if cursor.accept("->") else (type_,) * num_results
        actual = tuple(self._types[name] for name in operands)
        if declared != actual:
            wanted = ", ".join(map(str, declared))
            found = ", ".join(map(str, actual))
            raise cursor.problem(f"operands are {found}, declared as {wanted}", position=position)
        return results

    def _parse_type_list(self) -> tuple[TensorType, ...]:
        cursor = self._cursor
        if not cursor.accept("("):
            return (parse_tensor_type(cursor),)
        types: list[TensorType] = []
        while not cursor.accept(")"):
            types.append(parse_tensor_type(cursor))
            if not cursor.accept(","):
                cursor.expect(")")
                break
        return tuple(types)

    def _parse_return(self, function: _Function, *, is_generic: bool) -> None:
        cursor = self._cursor
        start = cursor.position
        function.returned = self._parse_operands(is_generic=is_generic)
        if is_generic or function.returned:
            cursor.expect(":")
            if is_generic:
                self._parse_type_list()
                cursor.expect("->")
                self._parse_type_list()
            else:
                for index in range(len(function.returned)):
                    if index:
                        cursor.expect(",")
                    parse_tensor_type(cursor)
        self._locations.parse_optional(cursor)
        returned = tuple(self._types[name] for name in function.returned)
        declared = tuple(type_ for type_, _ in function.results)
        if returned != declared:
            raise cursor.problem(
                f"{len(returned)} values are returned, which are not the {len(declared)} declared",
                position=start,
            )

    def _define(self, name: str, type_: TensorType, position: int) -> None:
        if name in self._types:
            raise self._cursor.problem(f"%{name} is defined twice", position=position)
        self._types[name] = type_

    def _build(self, function: _Function) -> Graph:
        graph = Graph(
            arguments=tuple(_argument(*argument) for argument in function.arguments),
            nodes=tuple(
                Node(
                    op=operation.op,
                    operands=operation.operands,
                    results=operation.results,
                    types=operation.types,
                    attributes=operation.attributes,
                    location=self._locations.resolve(operation.location),
                )
                for operation in function.operations
            ),
            results=tuple(
                Result(value=name, output_name=_name(attributes, "cs.output_name"))
                for name, (_, attributes) in zip(function.returned, function.results, strict=True)
            ),
            attributes=function.attributes,
        )
        graph = with_position_loop(graph, [attributes for _, attributes in function.results])
        try:
            verify(graph)
        except InternalError as error:
            raise ProgramError(
                f"The program contradicts itself: {error.message}",
                hint="Send the text exactly as the client's compiler front end prints it.",
            ) from None
        return graph


def _argument(name: str, type_: TensorType, attributes: AttributeDict) -> Argument:
    alias = attributes.get("tf.aliasing_output")
    return Argument(
        name=name,
        type=type_,
        resource_name=_name(attributes, "tf.resource_name"),
        aliased_result=alias if isinstance(alias, int) else None,
        input_name=_name(attributes, "cs.input_name"),
    )


def _name(attributes: AttributeDict, key: str) -> str | None:
    value = attributes.get(key)
    return value if isinstance(value, str) else None
