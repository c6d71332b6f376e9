"""Amounts as Kubernetes writes them.

Source: Kubernetes, apimachinery, pkg/api/resource, quantity.go.
"""

import re
from fractions import Fraction

_QUANTITY = re.compile(
    r"([+-]?(?:\d+(?:\.\d*)?|\.\d+))(?:(Ki|Mi|Gi|Ti|Pi|Ei)|([numkMGTPE])|[eE]([+-]?\d+))?"
)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def amount_of(quantity: object) -> Fraction:
    """Return an amount of cores or bytes: 1/2 for 500m, 1024 for 1Ki.

    Args:
        quantity: Text, or a number that JSON has.

    Raises:
        ValueError: It is none.
    """
    found = _QUANTITY.fullmatch(str(quantity).strip())
    if found is None:
        raise ValueError(f"{quantity!r} is no quantity of Kubernetes")
    number, binary, decimal, exponent = found.groups()
    if binary:
        return Fraction(number) * Fraction(1024) ** (_BINARY.index(binary) + 1)
    power = int(exponent) if exponent else _DECIMAL[decimal or ""]
    return Fraction(number) * Fraction(10) ** power
