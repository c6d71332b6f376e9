"""A place in the token list, and errors there; what both halves of the parser share."""

from appliance.csl.diagnostics import CslError, Diagnostic, Severity
from appliance.csl.sources import Source, Span
from appliance.csl.syntax.lexer import tokenize
from appliance.csl.syntax.tokens import Token, TokenKind

MAX_NESTING = 200
"""Levels of brackets, blocks and operators inside each other."""


class Cursor:
    """Reads tokens one by one."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.tokens, self.comments = tokenize(source.text)
        self.at = 0
        self.token = self.tokens[0]
        self.depth = 0
        self.errors: list[Diagnostic] = []

    def advance(self) -> Token:
        """Takes the current token."""
        token = self.token
        if token.kind is not TokenKind.END:
            self.at += 1
            self.token = self.tokens[self.at]
        return token

    def peek(self, distance: int = 1) -> Token:
        """A later token."""
        return self.tokens[min(self.at + distance, len(self.tokens) - 1)]

    def accept(self, text: str) -> bool:
        """Takes the current token if it is this operator or keyword."""
        if self.token.text == text and self.token.kind in _FIXED:
            self.advance()
            return True
        return False

    def sees(self, text: str) -> bool:
        """Whether the current token is this operator or keyword."""
        return self.token.text == text and self.token.kind in _FIXED

    def expect(self, text: str) -> Token:
        """Takes this operator or keyword, or fails."""
        if self.token.text == text and self.token.kind in _FIXED:
            return self.advance()
        raise self.unexpected(f"'{text}'")

    def expect_name(self, what: str) -> Token:
        """Takes an identifier, or fails."""
        if self.token.kind == TokenKind.NAME:
            return self.advance()
        if self.token.kind is TokenKind.KEYWORD:
            raise self.error(f"'{self.token.text}' is a keyword and cannot be {what}")
        raise self.unexpected(what)

    def previous_end(self) -> int:
        """Where the last taken token ends."""
        return self.tokens[self.at - 1].end if self.at else 0

    def unexpected(self, wanted: str) -> CslError:
        """An error at the current token; a missing `;` or bracket is shown where it belongs."""
        if wanted in ("';'", "')'", "']'", "'}'") and self.at:
            end = self.previous_end()
            return self.error(f"expected {wanted} after this", max(0, end - 1), end)
        return self.error(f"expected {wanted}, found {describe(self.token)}")

    def error(self, text: str, start: int | None = None, end: int | None = None) -> CslError:
        """An error at a stretch of the text, by default the current token."""
        span = Span(
            self.source,
            self.token.start if start is None else start,
            self.token.end if end is None else end,
        )
        return CslError(Diagnostic(Severity.ERROR, text, span))

    def enter(self) -> None:
        """One level deeper; fails where the text nests beyond any reason."""
        self.depth += 1
        if self.depth > MAX_NESTING:
            raise self.error(f"nested more than {MAX_NESTING} levels deep")

    def leave(self) -> None:
        """One level up again."""
        self.depth -= 1


_FIXED = frozenset((TokenKind.OPERATOR, TokenKind.KEYWORD))


def describe(token: Token) -> str:
    """A token in words."""
    if token.kind is TokenKind.END:
        return "the end of the file"
    if token.kind == TokenKind.INVALID:
        return f"character {token.text!r}"
    return f"'{token.text}'"
