"""Text to tokens to tree, both with their places kept: nothing here knows what names mean."""

from appliance.csl.syntax.lexer import tokenize
from appliance.csl.syntax.parser import parse
from appliance.csl.syntax.tokens import Token, TokenKind

__all__ = ["Token", "TokenKind", "parse", "tokenize"]
