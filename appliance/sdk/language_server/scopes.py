"""What names mean by the syntax alone: declarations, and the stretch of text where each counts.

The parser goes on after errors, so this answers while somebody types.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from appliance.csl.syntax import tree
from appliance.csl.syntax.tokens import Token, TokenKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """A name that a file declares.

    Attributes:
        start: Where it stands.
        scope: The stretch in which it counts; None for the whole file.
        node: What declares it: a declaration, function, parameter, loop or access.
        kind: `const`, `var`, `param`, `fn`, `task`, `parameter` or `variable`.
    """

    name: str
    start: int
    scope: tuple[int, int] | None
    node: tree.Node
    kind: str

    @property
    def end(self) -> int:
        """Where the name ends."""
        return self.start + len(self.name)


class Scopes:
    """The declarations of one parsed file."""

    def __init__(self, file: tree.File) -> None:
        self._file = file
        self._locals: dict[str, list[Declared]] = {}
        self.globals: dict[str, Declared] = {}
        for item in file.items:
            if isinstance(item, tree.TopBlock):
                self._block(item.body)
                continue
            found = Declared(
                name=item.name, start=item.name_start, scope=None, node=item, kind=_kind(item)
            )
            self.globals.setdefault(item.name, found)
            if isinstance(item, tree.Function):
                self._function(item)
            else:
                self._inside(item, item.end)

    def find(self, name: str, offset: int) -> Declared | None:
        """Return what a name means at a place: the declaration of the innermost scope."""
        best: Declared | None = None
        for each in self._locals.get(name, ()):
            assert each.scope is not None
            is_in = each.scope[0] <= offset < each.scope[1] or each.start == offset
            if is_in and (best is None or best.scope is None or each.scope[0] >= best.scope[0]):
                best = each
        return best or self.globals.get(name)

    def visible(self, offset: int) -> Iterator[Declared]:
        """Yield everything that has a name at a place, locals first."""
        for group in self._locals.values():
            for each in group:
                if each.scope is not None and each.scope[0] <= offset < each.scope[1]:
                    yield each
        yield from self.globals.values()

    @cached_property
    def _name_tokens(self) -> dict[str, list[Token]]:
        found: dict[str, list[Token]] = {}
        for before, token in zip((None, *self._file.tokens), self._file.tokens, strict=False):
            is_member = before is not None and before.text == "."
            if token.kind == TokenKind.NAME and not is_member:
                found.setdefault(token.text, []).append(token)
        return found

    def uses(self, declared: Declared) -> list[int]:
        """Return where a name stands that means this declaration, the declaration too."""
        tokens = self._name_tokens.get(declared.name, [])
        return [each.start for each in tokens if self.find(declared.name, each.start) == declared]

    def _function(self, item: tree.Function) -> None:
        for each in item.parameters:
            start = self._name_at(each)
            self._add(each.name, start, (item.start, item.end), each, "parameter")
        if item.body is not None:
            self._block(item.body)

    def _name_at(self, parameter: tree.Parameter) -> int:
        """Return where a parameter's name stands: behind `comptime`, if that is there."""
        at = bisect_left(self._file.tokens, parameter.start, key=lambda token: token.start)
        return self._file.tokens[at + parameter.is_comptime].start

    def _block(self, block: tree.Block) -> None:
        for statement in block.statements:
            self._inside(statement, block.end)

    def _inside(self, node: tree.Node, end: int) -> None:
        """Collect what is declared in a node that stands in a block which ends there."""
        match node:
            case tree.Block():
                self._block(node)
                return
            case tree.Declaration() if node.name_start >= 0 and end != node.end:
                self._add(node.name, node.name_start, (node.end, end), node, node.kind)
            case tree.For():
                names = (node.item, node.index) if node.index is not None else (node.item,)
                for each in names:
                    self._add(each.name, each.start, (each.start, node.end), node, "variable")
            case tree.TensorAccess():
                for each in node.variables:
                    self._add(each.name, each.start, (node.start, node.end), node, "variable")
            case _:
                pass
        for child in tree.children(node):
            self._inside(child, end)

    def _add(
        self, name: str, start: int, scope: tuple[int, int], node: tree.Node, kind: str
    ) -> None:
        found = Declared(name=name, start=start, scope=scope, node=node, kind=kind)
        self._locals.setdefault(name, []).append(found)


def _kind(item: tree.Declaration | tree.Function) -> str:
    if isinstance(item, tree.Function):
        return "task" if item.is_task else "fn"
    return item.kind


def path_to(file: tree.File, offset: int) -> list[tree.Node]:
    """Return the nodes around a place, the outermost first."""
    found: list[tree.Node] = []
    nodes: list[tree.Node] = list(file.items)
    while True:
        inner = [each for each in nodes if each.start <= offset <= each.end]
        if not inner:
            return found
        found.append(inner[-1])
        nodes = tree.children(inner[-1])


def token_at(file: tree.File, offset: int) -> Token | None:
    """Return the name, builtin or string at a place, or that ends there."""
    for token in file.tokens:
        if token.start > offset:
            return None
        if offset <= token.end and token.kind in _NAMED and token.end > token.start:
            return token
    return None


_NAMED = (TokenKind.NAME, TokenKind.BUILTIN, TokenKind.STRING, TokenKind.KEYWORD)
