"""Tokens: kinds, and the text they were read from."""

from typing import NamedTuple


class TokenKind:
    """Kinds of tokens, as strings that are compared by identity."""

    NAME = "name"
    BUILTIN = "builtin"
    INT = "integer"
    FLOAT = "float"
    STRING = "string"
    CHARACTER = "character"
    KEYWORD = "keyword"
    OPERATOR = "operator"
    COMMENT = "comment"
    END = "end of file"
    INVALID = "invalid"


class Token(NamedTuple):
    """A token; `text` is the source from `start` to `end`."""

    kind: str
    text: str
    start: int
    end: int


KEYWORDS = frozenset(
    (
        *("and", "or", "if", "else", "while", "for", "switch", "return", "break", "continue"),
        *("fn", "task", "const", "var", "param", "comptime", "layout", "export", "extern"),
        *("inline", "noinline", "struct", "union", "enum", "packed"),
    )
)
"""Words that cannot be names. Types such as `u16`, and `align`, are ordinary names."""
