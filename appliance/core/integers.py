"""Integers that callers write: one function reads them, and each has a bound.

Python refuses to read thousands of digits, SQLite and the kernel take 64 bits, and their errors are
not a caller's. Only ASCII digits count: Python knows those of other scripts, too.
"""

MAX_ID = (1 << 32) - 2
"""The largest user or group id; the next one means "leave it as it is" to the kernel."""
MAX_POSITION = (1 << 63) - 1
"""The largest number that SQL and files take."""
MAX_SECONDS = 1e9
"""The longest time that may be asked for, some 31 years."""
_MAX_DIGITS = 20


def find_integer(text: str, most: int) -> int | None:
    """Return the integer, from 0 to `most`, that a text is; None if it is none."""
    if not (text.isascii() and text.isdecimal()) or len(text) > _MAX_DIGITS:
        return None
    number = int(text)
    return number if number <= most else None
