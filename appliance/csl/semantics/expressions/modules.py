"""Modules: a file with its parameters, whose globals are evaluated when they are needed."""

from appliance.csl.diagnostics import CslError, Note, did_you_mean, other_name
from appliance.csl.semantics.context.frames import Frame, FunctionValue, Scope, World
from appliance.csl.semantics.context.session import Unit, guard
from appliance.csl.semantics.expressions.evaluate import coerce, evaluate, type_of_node
from appliance.csl.semantics.expressions.linkage import (
    check_exportable,
    extern_variable,
    symbol_name,
)
from appliance.csl.semantics.values import types as t
from appliance.csl.semantics.values.types import Type
from appliance.csl.semantics.values.values import DIRECTIONS, POISON, Const, is_poison, type_value
from appliance.csl.semantics.values.variables import Binding, GlobalVariable
from appliance.csl.syntax import tree

_IN_PROGRESS = object()


class Module(Scope):
    """A file whose globals are evaluated at their first use."""

    def __init__(
        self,
        world: World,
        unit: Unit,
        arguments: dict[str, Const],
        *,
        name: str,
        importer: tuple[Frame, tree.Node] | None = None,
        origin: Note | None = None,
    ) -> None:
        super().__init__(world, unit, name, importer, origin)
        self.arguments = arguments
        self._globals: dict[str, object] = {}
        self._constants: dict[str, GlobalVariable] = {}

    def lookup(self, name: str, frame: Frame, node: tree.Node) -> Binding:
        """The meaning of a global name, of a predefined one, or an error."""
        found = self._globals.get(name)
        if found is None:
            found = self._evaluate(name, frame, node)
        elif found is _IN_PROGRESS:
            frame.fail(node, f"the value of '{name}' depends on itself")
        return found  # type: ignore[return-value] # a binding, since not in progress

    def member(self, name: str, frame: Frame, start: int) -> Binding:
        """`module.name`."""
        if name not in self.unit.declarations:
            near = did_you_mean(name, self.unit.declarations)
            frame.fail(
                (start, start + len(name)),
                f"module '{self.unit.source.path}' has no member '{name}'{near}",
            )
        return self.lookup(name, self.frame, self.unit.declarations[name])

    def constant_variable(self, name: str) -> GlobalVariable:
        """A global constant as a variable, because its address or an element is needed."""
        found = self._constants.get(name)
        if found is None:
            declaration = self.unit.declarations[name]
            value = self._globals[name]
            assert isinstance(value, Const)
            assert not t.is_comptime_only(value.type), "`in_memory` refuses these"
            found = GlobalVariable(
                self.world.place,
                self.world.unique_name(self.qualified(name)),
                value.type,
                is_const=True,
                position=self.frame.position(declaration),
            )
            found.initial = value
            if isinstance(declaration, tree.Declaration):
                self._attributes(found, declaration)
            self._constants[name] = found
        return found

    def _evaluate(self, name: str, frame: Frame, node: tree.Node) -> Binding:
        declaration = self.unit.declarations.get(name)
        if declaration is None:
            return self._predefined(name, frame, node)
        self._globals[name] = _IN_PROGRESS
        result: Binding = POISON
        try:
            if isinstance(declaration, tree.Function):
                result = self._function(declaration)
            elif declaration.kind == "param":
                result = self._parameter(declaration)
            else:
                result = self._declared(declaration)
        except CslError as error:
            guard(self.world.session, error)
        self._globals[name] = result
        return result

    def _predefined(self, name: str, frame: Frame, node: tree.Node) -> Const:
        type_ = t.named_type(name, self.world.session.options.fp16_format)
        if type_ is not None:
            is_odd = isinstance(type_, t.IntType) and name not in t.NAMED
            frame.check_release(node, "an integer of any width" if is_odd else name)
            found = type_value(type_)
        elif name in DIRECTIONS:
            found = Const(t.DIRECTION, DIRECTIONS.index(name))
        elif name in ("true", "false"):
            found = Const(t.BOOL, name == "true")
        else:
            known = [*self.unit.declarations, *frame.locals, *t.NAMED, *DIRECTIONS, "true", "false"]
            frame.fail(node, f"use of undeclared identifier '{name}'{other_name(name, known)}")
        self._globals[name] = found
        return found

    def _function(self, node: tree.Function) -> Const:
        if node.is_inline:
            self.frame.check_release(
                (node.name_start, node.name_start + len(node.name)), "inline fn"
            )
        for attribute in node.attributes if node.is_inline else ():
            if attribute.name == "linkname":
                text = f"inline function '{node.name}' has no symbol, so no linkname"
                self.frame.fail(attribute.value, text)
        if node.is_extern and node.body is not None:
            self.frame.fail(node.body, f"extern function '{node.name}' cannot have a body")
        parameters = tuple(
            [
                None
                if p.type is None or self._is_dependent(p.type, node)
                else self._parameter_type(p)
                for p in node.parameters
            ]
        )
        if self._is_dependent(node.result, node):
            result = t.UNDEFINED
        else:
            result = type_of_node(node.result, self.frame)
        results = () if result in (t.VOID, t.UNDEFINED) else (result,)
        check_exportable(self, node, (*parameters, *results))
        type_ = t.function_type(parameters, result, is_task=node.is_task)
        return Const(type_, FunctionValue(self, node))

    def _parameter_type(self, parameter: tree.Parameter) -> Type | None:
        return None if parameter.type is None else type_of_node(parameter.type, self.frame)

    def _is_dependent(self, type_: tree.Expression, node: tree.Function) -> bool:
        """Whether a type of a signature mentions one of the function's parameters."""
        return not tree.names_of(type_).isdisjoint([p.name for p in node.parameters])

    def _parameter(self, node: tree.Declaration) -> Const:
        declared = type_of_node(node.type, self.frame) if node.type else None
        given = self.arguments.get(node.name)
        if given is not None:
            if declared is None or is_poison(given):
                return given
            value = coerce(given, declared, node, self.frame, f"param '{node.name}'")
            return value if isinstance(value, Const) else POISON
        if node.value is None:
            self._missing(node)
        return self._constant(node, declared)

    def _missing(self, node: tree.Declaration) -> None:
        if self.importer is None and self.origin is None:
            hint = f"give it with --params={node.name}:VALUE"
        elif self.importer is None:
            hint = "give it in the struct of @set_tile_code"
        else:
            hint = "give it in the struct of @import_module"
        span = (node.name_start, node.name_start + len(node.name))
        self.frame.fail(span, f"param '{node.name}' has no value; {hint}")

    def _constant(self, node: tree.Declaration, declared: Type | None) -> Const:
        assert node.value is not None
        value = evaluate(node.value, self.frame, declared)
        if is_poison(value):
            return POISON
        if declared is not None:
            value = coerce(value, declared, node.value, self.frame, f"'{node.name}'")
        assert isinstance(value, Const), "what is evaluated at compile time is known"
        return value

    def _declared(self, node: tree.Declaration) -> Binding:
        declared = type_of_node(node.type, self.frame) if node.type else None
        if node.value is None:
            if node.kind == "const" and not node.is_extern:
                self.frame.fail(node, f"const '{node.name}' has no value")
            if declared is None:
                self.frame.fail(node, f"'{node.name}' needs a type or a value")
        if node.is_extern:
            assert declared is not None or node.value is not None
            check_exportable(self, node, (declared,))
            return extern_variable(self, node, declared or t.VOID)
        if node.kind == "const" and node.value is not None:
            value = self._constant(node, declared)
            check_exportable(self, node, (value.type,))
            if value.type is t.FIFO:
                self.world.name_fifo(value, self.qualified(node.name))
            return value
        return self._variable(node, declared)

    def _variable(self, node: tree.Declaration, declared: Type | None) -> GlobalVariable | Const:
        initial = self._constant(node, declared) if node.value is not None else None
        if initial is not None and is_poison(initial):
            return POISON
        type_ = declared or (initial.type if initial else t.VOID)
        if t.is_comptime_only(type_) or type_ is t.VOID:
            text = f"variable of type '{type_}' must be comptime-known{t.remedy_of(type_)}"
            self.frame.fail(node, text)
        check_exportable(self, node, (type_,))
        name = self.world.unique_name(self.qualified(node.name))
        variable = GlobalVariable(
            self.world.place, name, type_, is_const=False, position=self.frame.position(node)
        )
        variable.initial = initial
        self._attributes(variable, node)
        return variable

    def _attributes(self, variable: GlobalVariable, node: tree.Declaration) -> None:
        for attribute in node.attributes:
            if attribute.name == "align":
                value = evaluate(attribute.value, self.frame, t.U16)
                if not isinstance(value, Const) or not isinstance(value.value, int):
                    self.frame.fail(attribute.value, "an alignment is a known integer")
                if value.value < 1 or value.value & (value.value - 1):
                    self.frame.fail(attribute.value, f"alignment {value.value} is no power of two")
                variable.alignment = max(variable.alignment, value.value)
                variable.given_alignment = value.value
            elif attribute.name == "linkname":
                variable.linkname = symbol_name(self, node)
