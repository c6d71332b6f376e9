"""What each word of a file is, for editors that color by it."""

from collections.abc import Iterator

from appliance.csl.semantics.values import types as t
from appliance.csl.semantics.values.values import DIRECTIONS
from appliance.csl.syntax.tokens import Token, TokenKind
from appliance.sdk.language_server.scopes import Declared
from appliance.sdk.language_server.workspace import ParsedFile

KINDS = (
    *("keyword", "comment", "string", "number", "macro", "function", "variable", "parameter"),
    *("type", "property", "enumMember"),
)
"""As the protocol names them; a token's kind is a position here."""

_OF_TOKENS = {
    TokenKind.KEYWORD: "keyword",
    TokenKind.COMMENT: "comment",
    TokenKind.STRING: "string",
    TokenKind.CHARACTER: "string",
    TokenKind.INT: "number",
    TokenKind.FLOAT: "number",
    TokenKind.BUILTIN: "macro",
}
_OF_DECLARATIONS = {
    "fn": "function",
    "task": "function",
    "parameter": "parameter",
    "param": "parameter",
}

Colored = tuple[Token, int]


def colored(file: ParsedFile) -> list[Colored]:
    """Return the words of a file in order, each with the number of its kind."""
    found = [*_words(file), *((each, KINDS.index("comment")) for each in file.tree.comments)]
    return sorted(found, key=lambda word: word[0].start)


def _words(file: ParsedFile) -> Iterator[Colored]:
    before = ""
    for token in file.tree.tokens:
        kind = _OF_TOKENS.get(token.kind)
        if token.kind == TokenKind.NAME:
            kind = (
                "property"
                if before == "."
                else _of_name(file.scopes.find(token.text, token.start), token.text)
            )
        if kind is not None:
            yield token, KINDS.index(kind)
        before = token.text


def _of_name(declared: Declared | None, name: str) -> str:
    if declared is not None:
        return _OF_DECLARATIONS.get(declared.kind, "variable")
    return (
        "enumMember"
        if name in DIRECTIONS or name in ("true", "false")
        else "type"
        if name in t.NAMED
        else "variable"
    )
