"""The outline of a file."""

from dataclasses import dataclass

from appliance.csl.syntax import tree
from appliance.sdk.language_server.hover import heading
from appliance.sdk.language_server.scopes import Declared
from appliance.sdk.language_server.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Symbol:
    """An entry of the outline: what is declared, where, and its first line."""

    declared: Declared
    start: int
    end: int
    detail: str


def outline(workspace: Workspace, path: str) -> list[Symbol]:
    """Return the declarations of a file in order, and its `layout` and `comptime` blocks."""
    file = workspace.parsed(path)
    if file is None:
        return []
    found = [
        Symbol(each, each.node.start, each.node.end, heading(file, each.node))
        for each in file.scopes.globals.values()
    ]
    for item in file.tree.items:
        if isinstance(item, tree.TopBlock):
            block = Declared(name=item.kind, start=item.start, scope=None, node=item, kind="block")
            found.append(Symbol(block, item.start, item.end, ""))
    return sorted(found, key=lambda symbol: symbol.start)
