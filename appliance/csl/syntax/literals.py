"""The values of literals."""

_ESCAPES = {"n": 10, "t": 9, "r": 13, "\\": 92, '"': 34, "'": 39, "0": 0}


class LiteralError(ValueError):
    """A literal that cannot be read."""


def int_value(text: str) -> int:
    """The value of a decimal, `0x`, `0b` or `0o` number."""
    try:
        if text[:1] == "0" and len(text) > 1 and text[1] not in "xXbBoO":
            return int(text.replace("_", ""), 10)
        return int(text, 0)
    except ValueError:
        return _loosely(text)


def _loosely(text: str) -> int:
    """As `int_value`, where `_` stand in places that Python does not allow."""
    digits = text.replace("_", "")
    if len(digits) > 4000:
        raise LiteralError(f"a number of {len(digits)} digits is too long")
    try:
        return int(digits, 0)
    except ValueError as error:
        raise LiteralError(f"'{text}' is not a number") from error


def float_value(text: str) -> float:
    """The value of a number with a point or an exponent."""
    return float(text.replace("_", ""))


def string_value(text: str) -> bytes:
    """The bytes of a string or character literal, which comes with its quotes."""
    body = text[1:-1]
    if "\\" not in body:
        return body.encode()
    found = bytearray()
    at = 0
    while at < len(body):
        if body[at] != "\\":
            found += body[at].encode()
            at += 1
            continue
        code = body[at + 1]
        if code == "x":
            found.append(_hexadecimal(body[at + 2 : at + 4]))
            at += 4
        elif code in _ESCAPES:
            found.append(_ESCAPES[code])
            at += 2
        else:
            raise LiteralError(f"unknown escape '\\{code}'")
    return bytes(found)


def _hexadecimal(digits: str) -> int:
    try:
        if len(digits) == 2:
            return int(digits, 16)
    except ValueError:
        pass
    raise LiteralError("'\\x' needs two hexadecimal digits")
