"""The parameters of the call that somebody is writing."""

from dataclasses import dataclass

from appliance.csl.syntax import tree
from appliance.csl.syntax.tokens import Token, TokenKind
from appliance.sdk.language_server.builtin_pages import builtin_pages
from appliance.sdk.language_server.declarations import module_of
from appliance.sdk.language_server.hover import comment_above, heading
from appliance.sdk.language_server.workspace import ParsedFile, Workspace

_OPENING = frozenset(("(", "[", "{", ".{"))
_CLOSING = frozenset((")", "]", "}"))
_ENDS = frozenset((";",))


@dataclass(frozen=True, slots=True)
class Signature:
    """A call's parameters.

    Attributes:
        label: The whole signature.
        parameters: Each parameter as the label has it.
        active: The number of the one that is written.
        text: What is said about it.
    """

    label: str
    parameters: tuple[str, ...]
    active: int
    text: str


def signature_at(workspace: Workspace, path: str, offset: int) -> Signature | None:
    """Return the signature of the innermost call around a place; None outside of calls."""
    file = workspace.parsed(path)
    if file is None:
        return None
    tokens = [each for each in file.tree.tokens if each.end <= offset and each.text]
    found = _open_call(tokens)
    if found is None:
        return None
    at, active = found
    callee = tokens[at - 1]
    if callee.kind == TokenKind.BUILTIN:
        page = builtin_pages().get(callee.text[1:])
        if page is None:
            return None
        return Signature(page.signature, page.parameters, active, page.text)
    return _of_function(workspace, path, file, tokens[:at], active)


def _open_call(tokens: list[Token]) -> tuple[int, int] | None:
    """Return which token opens the innermost call that is not closed, and the argument's number."""
    depth = commas = 0
    for at in range(len(tokens) - 1, -1, -1):
        text = tokens[at].text
        if text in _CLOSING:
            depth += 1
        elif text in _OPENING and depth:
            depth -= 1
        elif text == "," and not depth:
            commas += 1
        elif text in _OPENING:
            is_call = (
                text == "(" and at and tokens[at - 1].kind in (TokenKind.NAME, TokenKind.BUILTIN)
            )
            if is_call:
                return at, commas
            if text == "{":
                return None
            commas = 0
        elif text in _ENDS and not depth:
            return None
    return None


def _of_function(
    workspace: Workspace, path: str, file: ParsedFile, tokens: list[Token], active: int
) -> Signature | None:
    callee = tokens[-1]
    where, node = path, None
    if len(tokens) > 2 and tokens[-2].text == ".":
        owner = tokens[-3]
        module = module_of(workspace, path, tree.Name(owner.start, owner.end, owner.text))
        other = None if module is None else workspace.parsed(module)
        if module is not None and other is not None and callee.text in other.scopes.globals:
            where, file, node = module, other, other.scopes.globals[callee.text].node
    else:
        declared = file.scopes.find(callee.text, callee.start)
        node = None if declared is None else declared.node
    if not isinstance(node, tree.Function):
        return None
    parameters = tuple(file.source.text[each.start : each.end] for each in node.parameters)
    text = comment_above(file, node.start)
    library = f"Of the library {where}." if where.startswith("<") else ""
    return Signature(
        heading(file, node), parameters, active, " ".join(filter(None, (text, library)))
    )
