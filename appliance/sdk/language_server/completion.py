"""What may be written at a place."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

from appliance.csl.libraries import library_names
from appliance.csl.semantics.values import types as t
from appliance.csl.semantics.values.values import DIRECTIONS
from appliance.csl.syntax import tree
from appliance.csl.syntax.tokens import KEYWORDS, Token, TokenKind
from appliance.sdk.language_server.builtin_pages import builtin_pages
from appliance.sdk.language_server.declarations import module_of, struct_of
from appliance.sdk.language_server.hover import comment_above, heading
from appliance.sdk.language_server.workspace import ParsedFile, Workspace

_HIDDEN = frozenset(("intrinsic", "host_stream", "control_mask", "type_kind"))
"""For libraries."""


class Kind(Enum):
    """What an entry is, for its picture."""

    BUILTIN = auto()
    FUNCTION = auto()
    VARIABLE = auto()
    CONSTANT = auto()
    FIELD = auto()
    TYPE = auto()
    KEYWORD = auto()
    MODULE = auto()


@dataclass(frozen=True, slots=True)
class Entry:
    """Something that may be written.

    Attributes:
        label: What is shown and written.
        detail: Its signature or declaration.
        text: What it does.
    """

    label: str
    kind: Kind
    detail: str = ""
    text: str = ""


def completion(workspace: Workspace, path: str, offset: int) -> list[Entry]:
    """Return what may be written at a place."""
    file = workspace.parsed(path)
    if file is None:
        return []
    tokens = [each for each in file.tree.tokens if each.start < offset and each.text]
    before = file.source.text[:offset].rstrip(
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789"
    )
    if _is_in_string(tokens, file, offset):
        return [Entry(f"<{name}>", Kind.MODULE) for name in library_names()]
    if before.endswith("@"):
        return [
            Entry(f"@{page.name}", Kind.BUILTIN, page.signature, page.text)
            for page in builtin_pages().values()
            if page.name not in _HIDDEN
        ]
    if before.endswith("."):
        return list(_members(workspace, path, tokens, len(before) - 1))
    return [*_visible(file, offset), *_predefined()]


def _is_in_string(tokens: list[Token], file: ParsedFile, offset: int) -> bool:
    """Whether a string of an import is written here, closed or not yet."""
    line, column = file.source.line_column(offset)
    return '@import_module("' in file.source.line_text(line)[: column - 1] and (
        file.source.line_text(line)[: column - 1].count('"') % 2 == 1
    )


def _members(workspace: Workspace, path: str, tokens: list[Token], dot: int) -> Iterator[Entry]:
    """Yield the members of what stands before a dot."""
    owners = [each for each in tokens if each.end <= dot]
    if not owners or owners[-1].kind != TokenKind.NAME:
        return
    owner = owners[-1]
    name = tree.Name(owner.start, owner.end, owner.text)
    module = module_of(workspace, path, name)
    other = None if module is None else workspace.parsed(module)
    if other is not None:
        for declared in other.scopes.globals.values():
            yield _declared(other, declared.name, declared.node)
        return
    struct = struct_of(workspace, path, name)
    if struct is not None:
        file = workspace.parsed(path)
        assert file is not None
        for each in struct.fields:
            text = file.source.text[each.start : each.end]
            yield Entry(each.name, Kind.FIELD, text)
        return
    yield from _known_fields(workspace, path, owner.text)


def _known_fields(workspace: Workspace, path: str, name: str) -> Iterator[Entry]:
    """Yield the fields of a struct that the analysis has seen under a name of the file."""
    analysis = workspace.analysis(path)
    unit = analysis.units.get(path)
    if unit is None:
        return
    for (file, start, end), meanings in analysis.meanings.items():
        if file == path and unit.source.text[start:end] == name:
            type_ = meanings[0].type
            if isinstance(type_, t.PointerType):
                type_ = type_.target
            if isinstance(type_, t.StructType | t.PackedType):
                for field, kind in zip(type_.field_names, type_.field_types, strict=True):
                    yield Entry(field, Kind.FIELD, f"{field}: {kind}")
                return
            if type_ is t.TYPE and meanings[0].value is not None:
                enum = meanings[0].value.value
                names = enum.members if isinstance(enum, t.EnumType) else ()
                yield from (Entry(each, Kind.CONSTANT, str(enum)) for each in names)
                return


def _declared(file: ParsedFile, name: str, node: tree.Node) -> Entry:
    kind = Kind.VARIABLE
    if isinstance(node, tree.Function):
        kind = Kind.FUNCTION
    elif isinstance(node, tree.Declaration) and node.kind != "var":
        kind = Kind.CONSTANT
    return Entry(name, kind, heading(file, node), comment_above(file, node.start))


def _visible(file: ParsedFile, offset: int) -> Iterator[Entry]:
    told: set[str] = set()
    for declared in file.scopes.visible(offset):
        if declared.name not in told:
            told.add(declared.name)
            yield _declared(file, declared.name, declared.node)


def _predefined() -> Iterator[Entry]:
    for name in t.NAMED:
        yield Entry(name, Kind.TYPE)
    for name in (*DIRECTIONS, "true", "false"):
        yield Entry(name, Kind.CONSTANT)
    for name in sorted(KEYWORDS):
        yield Entry(name, Kind.KEYWORD)
