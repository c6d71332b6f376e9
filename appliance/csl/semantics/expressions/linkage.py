"""`extern` declarations: names of what a file of the same PE exports.

All files of a PE are linked to one program. An extern variable has no memory: its address is that
of the exported one, looked up when something first needs it, so that files may be imported in any
order. An extern function is the exported one.
"""

from functools import partial
from typing import NoReturn

from appliance.csl.semantics.context.frames import Frame, FunctionValue, Scope
from appliance.csl.semantics.expressions.evaluate import evaluate
from appliance.csl.semantics.values import types as t
from appliance.csl.semantics.values.types import Type
from appliance.csl.semantics.values.values import Const
from appliance.csl.semantics.values.variables import GlobalVariable
from appliance.csl.syntax import tree

Declared = tree.Declaration | tree.Function


def is_exportable(type_: Type) -> bool:
    """Whether other programs could share a variable of a type: its layout is the machine's."""
    if isinstance(type_, t.ArrayType):
        return is_exportable(type_.element)
    if isinstance(type_, t.PointerType):
        target = type_.target
        return isinstance(target, t.FunctionType) or target is t.ANYOPAQUE or is_exportable(target)
    if isinstance(type_, t.StructType):
        node = type_.identity[0] if isinstance(type_.identity, tuple) else None
        return isinstance(node, tree.StructType) and node.is_extern
    kinds = t.IntType | t.FloatType | t.EnumType | t.PackedType | t.HandleType
    is_scalar = isinstance(type_, kinds) and type_ is not t.DIRECTION
    return type_ is t.POISON or (type_.machine is not None and (is_scalar or type_ is t.BOOL))


def check_exportable(module: Scope, node: Declared, types: tuple[Type | None, ...]) -> None:
    """An `export` or `extern` declaration has types that other programs know."""
    for type_ in types if node.is_exported or node.is_extern else ():
        if type_ is not None and not is_exportable(type_):
            word = "exported" if node.is_exported else "extern"
            what = "numbers, bools, enums, colors, 'extern' structs, their arrays and pointers"
            _fail(module, node, f"a value of '{type_}' cannot be {word}; {what} can")


def symbol_name(module: Scope, node: Declared) -> str:
    """The name by which other files know a declaration: its `linkname`, or its own."""
    for attribute in node.attributes:
        if attribute.name != "linkname":
            continue
        value = evaluate(attribute.value, module.frame, t.STRING)
        if not isinstance(value, Const) or value.type is not t.STRING:
            module.frame.fail(attribute.value, "a linkname is a known string")
        return str(value.value.decode("utf-8", "replace"))
    return node.name


def extern_variable(module: Scope, node: tree.Declaration, type_: Type) -> GlobalVariable:
    """The variable that an `extern var` or `extern const` names."""
    if node.value is not None:
        module.frame.fail(node.value, f"extern '{node.name}' cannot have a value; its export has")
    return GlobalVariable(
        partial(_address, module, node),
        module.qualified(node.name),
        type_,
        is_const=node.kind == "const",
        position=module.frame.position(node),
    )


def _address(module: Scope, node: tree.Declaration, variable: GlobalVariable) -> int:
    owner, found = _exporter(module, node, variable.type)
    binding = owner.lookup(found.name, module.frame, node)
    if variable.is_const and not isinstance(binding, Const) and not binding.is_const:
        _fail(module, node, f"'{found.name}' is exported as a variable; write 'extern var'")
    if isinstance(binding, Const):
        if binding.type is t.POISON:
            module.frame.silent()
        if not variable.is_const:
            _fail(module, node, f"'{found.name}' is exported as a constant; write 'extern const'")
        binding = owner.constant_variable(found.name)
    return binding.placed_address()


def extern_function(function: FunctionValue, node: tree.Node, frame: Frame) -> FunctionValue:
    """The function that an `extern fn` names.

    Args:
        function: The declaration without a body.
        node: Where it is used.
        frame: The frame there.
    """
    declared = function.node
    if not declared.is_extern:
        frame.fail(node, f"function '{declared.name}' is only declared")
    if frame.builder is None and isinstance(node, tree.Call):
        frame.fail(node, f"extern function '{declared.name}' cannot be called at compile time")
    type_ = function.module.lookup(declared.name, frame, node).type
    owner, found = _exporter(function.module, declared, type_)
    binding = owner.lookup(found.name, frame, node)
    assert isinstance(binding, Const), "an exporter of this type is a function"
    defined: FunctionValue = binding.value
    return defined


def _exporter(module: Scope, node: Declared, type_: Type) -> tuple[Scope, Declared]:
    """The module and the one declaration that exports what an extern names."""
    name = symbol_name(module, node)
    found = [
        (owner, declaration)
        for owner in module.world.modules
        for declaration in owner.unit.declarations.values()
        if declaration.is_exported and symbol_name(owner, declaration) == name
    ]
    if not found:
        _fail(module, node, f"extern '{name}' is defined nowhere; no file of this PE exports it")
    if len(found) > 1:
        paths = " and ".join(f"'{owner.unit.source.path}'" for owner, _ in found[:2])
        _fail(module, node, f"extern '{name}' is defined twice, in {paths}")
    owner, declaration = found[0]
    exported = owner.lookup(declaration.name, module.frame, node).type
    if exported is not type_ and exported is not t.POISON:
        _fail(module, node, f"extern '{name}' has type '{type_}', its export has '{exported}'")
    return owner, declaration


def _fail(module: Scope, node: Declared, text: str) -> NoReturn:
    module.frame.fail((node.name_start, node.name_start + len(node.name)), text)
