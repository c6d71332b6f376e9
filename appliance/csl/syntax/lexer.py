"""Text to tokens."""

import re

from appliance.csl.syntax.tokens import KEYWORDS, Token, TokenKind

_PATTERN = re.compile(
    r"""
    (?P<space>[ \t\r\n]+)
  | (?P<comment>//[^\n]*)
  | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<builtin>@[A-Za-z_][A-Za-z0-9_]*)
  | (?P<float>[0-9][0-9_]*\.[0-9][0-9_]*(?:[eE][+-]?[0-9]+)?
      | [0-9][0-9_]*\.?[eE][+-]?[0-9]+
      | [0-9][0-9_]*\.(?![.\w{*]))
  | (?P<integer>0[xX][0-9a-fA-F_]+|0[bB][01_]+|0[oO][0-7_]+|[0-9][0-9_]*)
  | (?P<string>"(?:[^"\\\n]|\\.)*")
  | (?P<character>'(?:[^'\\\n]|\\x[0-9a-fA-F]{2}|\\.)')
  | (?P<operator><<=|>>=|\.\*|\.\{|->|=>|==|!=|<=|>=|<<|>>|\+=|-=|\*=|/=|%=|&=|\|=|\^=
      |[-+*/%&|^~!<>=(){}\[\],;:.])
  | (?P<invalid>.)
    """,
    re.VERBOSE,
)


def tokenize(text: str) -> tuple[list[Token], list[Token]]:
    """Splits a text.

    Returns:
        The tokens, ending with one of kind END, and the comments. A character that begins no
        token becomes one of kind INVALID.
    """
    tokens: list[Token] = []
    comments: list[Token] = []
    append = tokens.append
    for match in _PATTERN.finditer(text):
        kind = match.lastgroup or TokenKind.INVALID
        if kind == "space":
            continue
        word = match.group()
        token = Token(
            TokenKind.KEYWORD if kind == "name" and word in KEYWORDS else kind,
            word,
            match.start(),
            match.end(),
        )
        if kind == "comment":
            comments.append(token)
        else:
            append(token)
    append(Token(TokenKind.END, "", len(text), len(text)))
    return tokens, comments
