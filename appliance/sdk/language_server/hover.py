"""What an editor shows of what stands under the pointer, as Markdown."""

from collections.abc import Iterator

from appliance.csl.analysis import Meaning
from appliance.csl.program.operands import MemoryDescriptor
from appliance.csl.semantics.context.texts import text_of
from appliance.csl.semantics.values import types as t
from appliance.csl.syntax import tree
from appliance.csl.syntax.tokens import TokenKind
from appliance.sdk.language_server.builtin_pages import builtin_pages
from appliance.sdk.language_server.declarations import Named, named_at
from appliance.sdk.language_server.scopes import path_to
from appliance.sdk.language_server.workspace import ParsedFile, Workspace
from appliance.wafer.hardware import find_machine
from appliance.wafer.instruction_costs import operations_per_cycle

_MOST_TEXT = 200
_OPAQUE = (t.MODULE, t.VOID)
_MACHINES = {"wse2": "CS-2", "wse3": "CS-3"}
VECTOR_KINDS = frozenset(("mem1d_dsd", "mem4d_dsd", "fabin_dsd", "fabout_dsd", "circbuf_dsd"))


def hover(workspace: Workspace, path: str, offset: int) -> str | None:
    """Return what is known of a name; None where there is none."""
    named = named_at(workspace, path, offset)
    if named is None:
        return None
    if named.token.kind == TokenKind.BUILTIN:
        return _builtin(workspace, path, offset, named)
    parts = [*_declaration(workspace, named), *_meanings(named)]
    return "\n\n".join(parts) or None


def _builtin(workspace: Workspace, path: str, offset: int, named: Named) -> str | None:
    page = builtin_pages().get(named.token.text[1:])
    if page is None:
        return None
    cost = _cost(workspace, path, offset, page.name)
    parts = [_code(page.signature), page.text, *([cost] if cost else []), *_meanings(named)]
    return "\n\n".join(parts)


def _code(text: str) -> str:
    return f"```csl\n{text}\n```"


def _declaration(workspace: Workspace, named: Named) -> Iterator[str]:
    """Yield the declaration of a name, and the comment above it."""
    file = workspace.parsed(named.path) if named.path else None
    if file is None or named.declared is None:
        return
    yield _code(heading(file, named.declared.node))
    is_alone = isinstance(named.declared.node, tree.Declaration | tree.Function)
    comment = comment_above(file, named.declared.node.start) if is_alone else ""
    if comment:
        yield comment
    if named.path.startswith("<"):
        yield f"Of the library `{named.path}`."


def heading(file: ParsedFile, node: tree.Node) -> str:
    """Return a declaration as it is written; of a function or loop what is before its body."""
    body = getattr(node, "body", None)
    end = body.start if isinstance(body, tree.Node) else node.end
    text = " ".join(file.source.text[node.start : end].split())
    return text if len(text) <= _MOST_TEXT else text[:_MOST_TEXT] + " ..."


def comment_above(file: ParsedFile, offset: int) -> str:
    """Return the comment in the lines directly above a place."""
    line, _ = file.source.line_column(offset)
    found: list[str] = []
    while line > 1 and (text := file.source.line_text(line - 1).strip()).startswith("//"):
        found.append(text.lstrip("/").strip())
        line -= 1
    return " ".join(reversed(found))


def _meanings(named: Named) -> Iterator[str]:
    """Yield type and value, once for each of several values."""
    shown: dict[str, list[Meaning]] = {}
    is_function = named.declared is not None and isinstance(named.declared.node, tree.Function)
    for meaning in () if is_function else named.meanings:
        shown.setdefault(_meaning(meaning), []).append(meaning)
    if len(shown) == 1:
        yield next(iter(shown))
        return
    for text, meanings in shown.items():
        places = [f"({each.pe[0]}, {each.pe[1]})" for each in meanings if each.pe is not None]
        where = f" on the PEs of {places[0]}" if places else ""
        yield f"{text}{where}"


def _meaning(meaning: Meaning) -> str:
    value = None if meaning.type in _OPAQUE else value_text(meaning)
    return f"type `{meaning.type}`" + ("" if value is None else f", value `{value}`")


def value_text(meaning: Meaning) -> str | None:
    """Return a value that is known at compile time, for people; None of what says nothing."""
    if meaning.value is None or isinstance(meaning.type, t.FunctionType):
        return None
    value = meaning.value.value
    if isinstance(value, MemoryDescriptor):
        extents = " x ".join(map(str, value.extents))
        return f"{extents} elements of {value.symbol or 'an array'}"
    if str(meaning.type) in VECTOR_KINDS:
        return None
    text = text_of(meaning.value)
    return text if len(text) <= _MOST_TEXT else text[:_MOST_TEXT] + " ..."


def _cost(workspace: Workspace, path: str, offset: int, name: str) -> str:
    """Return what a DSD operation costs by the model; empty for other builtins."""
    page = builtin_pages()[name]
    if not page.signature.startswith(f"@{name}(destination") or not page.signature.endswith("bool"):
        return ""
    architecture = workspace.options(path).architecture
    machine = find_machine(_MACHINES[architecture])
    rate = operations_per_cycle(name, architecture)
    each = "one element a cycle" if rate == 1 else f"{rate} elements a cycle"
    start, load = machine.vector_issue_cycles, machine.descriptor_load_cycles
    text = (
        f"Cost on {architecture} by the model: at best {each}, {start} to start, {load} for each "
        "descriptor that is not in a DSR"
    )
    length = _length(workspace, path, offset)
    if length is None:
        return f"{text}."
    cycles = start + -(-length // rate)
    return f"{text}: {length:,} elements take {cycles:,} cycles and the descriptors."


def _length(workspace: Workspace, path: str, offset: int) -> int | None:
    """Return how many elements the operation at a place has, if its DSDs say it."""
    file, analysis = workspace.parsed(path), workspace.analysis(path)
    unit = analysis.units.get(path)
    if file is None or unit is None or unit.source.text != file.source.text:
        return None
    calls = [each for each in path_to(file.tree, offset) if isinstance(each, tree.BuiltinCall)]
    for argument in calls[-1].arguments if calls else ():
        for meaning in analysis.meanings.get((path, argument.start, argument.end), ()):
            value = None if meaning.value is None else meaning.value.value
            if isinstance(value, MemoryDescriptor):
                length = 1
                for extent in value.extents:
                    length *= extent
                return length
    return None
