"""JSON that somebody else wrote: whatever it is, it is read or is an error like any other.

Python raises `RecursionError` for a text of a thousand brackets. Whoever expects errors of JSON to
be `ValueError` lets that one through, to where it ends a thread, or a call as a fault of ours.
"""

import json


def read_json(text: str | bytes | bytearray) -> object:
    """Return what a text of JSON says; raises `ValueError` for one that cannot be read."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
