"""All places of a name, and a new name for them."""

from dataclasses import dataclass

from appliance.core.errors import UserError
from appliance.csl.semantics.values import types as t
from appliance.csl.semantics.values.values import DIRECTIONS
from appliance.csl.syntax import tree
from appliance.csl.syntax.tokens import KEYWORDS
from appliance.sdk.language_server.declarations import Named, module_of, named_at
from appliance.sdk.language_server.scopes import Declared
from appliance.sdk.language_server.workspace import Workspace


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where a name stands in a file."""

    path: str
    start: int
    end: int


def places_of(workspace: Workspace, path: str, offset: int) -> list[Place]:
    """Return where the name at a place is declared and used, in all files of its program."""
    named = named_at(workspace, path, offset)
    if named is None or named.declared is None:
        return []
    return _places(workspace, path, named, named.declared)


def renamed(workspace: Workspace, path: str, offset: int, name: str) -> list[Place]:
    """Return the places to be written anew where a name gets another one.

    Raises:
        UserError: It is no name, is taken, or others know the old one.
    """
    named = named_at(workspace, path, offset)
    if named is None or named.declared is None:
        raise UserError("There is no name of this program here.")
    old = named.declared
    if not name.isidentifier() or not name.isascii() or name in KEYWORDS:
        raise UserError(f"{name!r} is no name of CSL.")
    _check_known(workspace, named.path, old)
    places = _places(workspace, path, named, old)
    for place in places:
        file = workspace.parsed(place.path)
        taken = None if file is None else file.scopes.find(name, place.start)
        if taken is not None or name in t.NAMED or name in DIRECTIONS:
            raise UserError(f"{name!r} means something else already.", hint="Take another name.")
    return places


def _check_known(workspace: Workspace, path: str, old: Declared) -> None:
    if path.startswith("<"):
        raise UserError(f"{old.name!r} is of the library {path}.")
    if old.kind == "param":
        raise UserError(f"{old.name!r} is a param: whoever gives it a value names it.")
    if old.kind == "field":
        raise UserError(f"{old.name!r} is a field, which other expressions may name.")
    if isinstance(old.node, tree.Declaration | tree.Function) and old.node.is_exported:
        raise UserError(f"{old.name!r} is exported: the host knows it by this name.")
    file = workspace.parsed(path)
    if file is not None and old.scope is None and _is_symbol(file.tree, old.name):
        raise UserError(f"{old.name!r} is exported under its name by '@export_symbol'.")


def _is_symbol(node: tree.Node, name: str) -> bool:
    """Whether `@export_symbol(name)` without a name of its own is in a file."""
    if isinstance(node, tree.BuiltinCall) and node.name == "export_symbol":
        first = node.arguments[0] if len(node.arguments) == 1 else None
        return isinstance(first, tree.Name) and first.name == name
    return any(_is_symbol(each, name) for each in tree.children(node))


def _places(workspace: Workspace, path: str, named: Named, old: Declared) -> list[Place]:
    file = workspace.parsed(named.path)
    assert file is not None
    starts = file.scopes.uses(old)
    found = {Place(named.path, start, start + len(old.name)) for start in starts}
    if old.scope is None:
        for other in workspace.analysis(path).units:
            found.update(_members_in(workspace, other, named.path, old.name))
    return sorted(found)


def _members_in(workspace: Workspace, path: str, module: str, name: str) -> list[Place]:
    """Return where a file names a global of a module that it imports."""
    file = workspace.parsed(path)
    if file is None or path.startswith("<"):
        return []
    found: list[Place] = []
    waiting: list[tree.Node] = list(file.tree.items)
    while waiting:
        node = waiting.pop()
        waiting += tree.children(node)
        if not isinstance(node, tree.Member) or node.name != name:
            continue
        if module_of(workspace, path, node.operand) == module:
            found.append(Place(path, node.name_start, node.name_start + len(name)))
    return found
