"""What stands at a place of a file: a name, and where it is declared."""

from dataclasses import dataclass

from appliance.csl.analysis import Analysis, Meaning
from appliance.csl.semantics.context.frames import Scope
from appliance.csl.semantics.values import types as t
from appliance.csl.syntax import tree
from appliance.csl.syntax.tokens import Token, TokenKind
from appliance.sdk.language_server.scopes import Declared, path_to, token_at
from appliance.sdk.language_server.workspace import ParsedFile, Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A name in a file, and what declares it.

    Attributes:
        token: The name.
        path: The file of the declaration; empty without one.
        declared: The declaration; None of a builtin, a file or what no file declares.
        meanings: What the expression is that the name ends, where it was evaluated.
    """

    token: Token
    path: str = ""
    declared: Declared | None = None
    meanings: tuple[Meaning, ...] = ()


def named_at(workspace: Workspace, path: str, offset: int) -> Named | None:
    """Return what stands at a place; None if it is no name."""
    file = workspace.parsed(path)
    token = None if file is None else token_at(file.tree, offset)
    if file is None or token is None or token.kind == TokenKind.KEYWORD:
        return None
    analysis = workspace.analysis(path)
    nodes = path_to(file.tree, offset)
    if token.kind == TokenKind.BUILTIN:
        call = next((each for each in reversed(nodes) if isinstance(each, tree.BuiltinCall)), None)
        return Named(token=token, meanings=_meanings(analysis, file, call))
    if token.kind == TokenKind.STRING:
        return _file(workspace, path, token, nodes)
    for node in reversed(nodes):
        if isinstance(node, tree.Member) and node.name_start == token.start:
            return _member(workspace, path, file, token, node)
        if isinstance(node, tree.FieldValue) and _names_field(node, token):
            return _given(workspace, path, token, nodes)
    declared = file.scopes.find(token.text, token.start)
    found = _meanings(analysis, file, _named_node(nodes, token, declared))
    if declared is not None and not found:
        found = _of_uses(analysis, file, declared)
    return Named(token=token, path=path if declared else "", declared=declared, meanings=found)


def _names_field(node: tree.FieldValue, token: Token) -> bool:
    return node.name == token.text and token.end <= node.value.start


def _named_node(
    nodes: list[tree.Node], token: Token, declared: Declared | None
) -> tree.Expression | None:
    """Return the expression that a name is, or the value that its declaration gives it."""
    for node in reversed(nodes):
        if isinstance(node, tree.Name) and node.start == token.start:
            return node
    if declared is not None and isinstance(declared.node, tree.Declaration):
        return declared.node.value
    return None


def _meanings(
    analysis: Analysis, file: ParsedFile, node: tree.Expression | None
) -> tuple[Meaning, ...]:
    """Return what an expression was, if its text has stayed as it was analysed."""
    unit = analysis.units.get(file.source.path)
    if node is None or unit is None or unit.source.text != file.source.text:
        return ()
    return tuple(analysis.meanings.get((file.source.path, node.start, node.end), ()))


def _of_uses(analysis: Analysis, file: ParsedFile, declared: Declared) -> tuple[Meaning, ...]:
    """Return what a name is where it is used first: its declaration is no expression."""
    for start in file.scopes.uses(declared):
        name = tree.Name(start, start + len(declared.name), declared.name)
        if found := _meanings(analysis, file, name):
            return found
    return ()


def _file(workspace: Workspace, path: str, token: Token, nodes: list[tree.Node]) -> Named | None:
    """Return the file that a string of an import or of a PE's code names."""
    calls = [each for each in nodes if isinstance(each, tree.BuiltinCall)]
    if not calls or calls[-1].name not in ("import_module", "set_tile_code"):
        return None
    found = workspace.resolve(token.text[1:-1], path)
    return None if found is None else Named(token=token, path=found)


def _member(
    workspace: Workspace, path: str, file: ParsedFile, token: Token, node: tree.Member
) -> Named:
    analysis = workspace.analysis(path)
    meanings = _meanings(analysis, file, node)
    module = module_of(workspace, path, node.operand)
    if module is not None:
        other = workspace.parsed(module)
        declared = None if other is None else other.scopes.globals.get(node.name)
        where = module if declared is not None else ""
        return Named(token=token, path=where, declared=declared, meanings=meanings)
    field = _field_declaration(workspace, path, node)
    return Named(token=token, path=path if field else "", declared=field, meanings=meanings)


def module_of(workspace: Workspace, path: str, operand: tree.Expression) -> str | None:
    """Return the file of an imported module that an expression is; None of anything else.

    By the analysis, or by the declaration alone where the file has changed since.
    """
    file = workspace.parsed(path)
    if file is None:
        return None
    for meaning in _meanings(workspace.analysis(path), file, operand):
        if meaning.type is t.MODULE and meaning.value is not None:
            scope: Scope = meaning.value.value
            return scope.unit.source.path
    if isinstance(operand, tree.Name):
        declared = file.scopes.find(operand.name, operand.start)
        return None if declared is None else imported_file(workspace, path, declared.node)
    if isinstance(operand, tree.Member):
        module = module_of(workspace, path, operand.operand)
        other = None if module is None else workspace.parsed(module)
        found = None if other is None else other.scopes.globals.get(operand.name)
        if module is not None and found is not None:
            return imported_file(workspace, module, found.node)
    return None


def imported_file(workspace: Workspace, path: str, node: tree.Node) -> str | None:
    """Return the file that a declaration imports."""
    value = node.value if isinstance(node, tree.Declaration) else None
    if not isinstance(value, tree.BuiltinCall) or value.name != "import_module":
        return None
    first = value.arguments[0] if value.arguments else None
    if not isinstance(first, tree.StringLiteral):
        return None
    return workspace.resolve(first.value.decode("utf-8", "replace"), path)


def _given(workspace: Workspace, path: str, token: Token, nodes: list[tree.Node]) -> Named:
    """Return the param that `.name = value` of an import or of a PE's code gives a value."""
    calls = [each for each in nodes if isinstance(each, tree.BuiltinCall)]
    strings = (
        [each for each in calls[-1].arguments if isinstance(each, tree.StringLiteral)]
        if calls
        else []
    )
    if calls and strings and calls[-1].name in ("import_module", "set_tile_code"):
        other = workspace.resolve(strings[0].value.decode("utf-8", "replace"), path)
        file = None if other is None else workspace.parsed(other)
        declared = None if file is None else file.scopes.globals.get(token.text)
        if other is not None and declared is not None:
            return Named(token=token, path=other, declared=declared)
    return Named(token=token)


def struct_of(workspace: Workspace, path: str, operand: tree.Expression) -> tree.StructType | None:
    """Return the struct type that an expression's declared type is, by the syntax of its file."""
    file = workspace.parsed(path)
    if file is None or not isinstance(operand, tree.Name):
        return None
    declared = file.scopes.find(operand.name, operand.start)
    node = None if declared is None else declared.node
    type_ = node.type if isinstance(node, tree.Declaration | tree.Parameter) else None
    value = node.value if isinstance(node, tree.Declaration) else None
    if type_ is None and isinstance(value, tree.Initializer):
        type_ = value.type
    if isinstance(type_, tree.PointerType):
        type_ = type_.target
    if isinstance(type_, tree.Name):
        named = file.scopes.find(type_.name, type_.start)
        type_ = named.node.value if named and isinstance(named.node, tree.Declaration) else None
    return type_ if isinstance(type_, tree.StructType) else None


def _field_declaration(workspace: Workspace, path: str, node: tree.Member) -> Declared | None:
    operand = node.operand.operand if isinstance(node.operand, tree.Dereference) else node.operand
    struct = struct_of(workspace, path, operand)
    for each in () if struct is None else struct.fields:
        if each.name == node.name:
            scope = (each.start, each.end)
            return Declared(name=each.name, start=each.start, scope=scope, node=each, kind="field")
    return None
