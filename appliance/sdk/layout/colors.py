"""Numbers for the colors of a layout: colors that meet in a PE get different ones."""

from collections.abc import Iterable, Mapping, Set

from appliance.sdk.layout.code_regions import Pe
from appliance.sdk.layout.routing import Color
from appliance.sdk.symbols import HostCallError

HOST_COLOR = 23
"""By which the host reaches the PEs that send and receive for it."""
_SWITCHED_WSE3 = (*range(10), 12, 13, 16, 17, 20, 21)
"""Colors that have switches on WSE-3."""


class Classes:
    """Which colors are one, since connected ports carry the same wavelets."""

    def __init__(self) -> None:
        self._parents: dict[Color, Color] = {}

    def find(self, color: Color) -> Color:
        """Return the color that stands for a color."""
        while (parent := self._parents.get(color, color)) is not color:
            color = parent
        return color

    def join(self, a: Color, b: Color) -> None:
        """Make two colors one."""
        first, second = self.find(a), self.find(b)
        if first is second:
            return
        values = {color.value for color in (first, second) if color.value is not None}
        if len(values) > 1:
            raise HostCallError(
                f"{a} has the value {a.value} and {b} the value {b.value}; connected ports have "
                "one color."
            )
        kept, other = (first, second) if first.value is not None else (second, first)
        self._parents[other] = kept


def numbers_of(
    places: Mapping[Color, Set[Pe]], switched: Iterable[Color], *, is_wse3: bool
) -> dict[Color, int]:
    """Return a number for each color.

    Args:
        places: Where a color is routed, or is the value of a param.
        switched: Colors with several routing positions.
        is_wse3: Whether only some numbers have switches.

    Raises:
        HostCallError: Two colors with one value meet in a PE, or there are not enough numbers.
    """
    needs_switch = set(switched)
    found: dict[Color, int] = {}
    fixed = [color for color in places if color.value is not None]
    for color in fixed:
        assert color.value is not None
        found[color] = color.value
        _check(color, found, places)
    for color in [color for color in places if color.value is None]:
        allowed = _SWITCHED_WSE3 if is_wse3 and color in needs_switch else range(HOST_COLOR)
        taken = {found[other] for other in found if places[other] & places[color]}
        number = next((number for number in allowed if number not in taken), None)
        if number is None:
            raise HostCallError(f"There is no number left for {color}: {len(taken)} are taken.")
        found[color] = number
    return found


def _check(color: Color, found: Mapping[Color, int], places: Mapping[Color, Set[Pe]]) -> None:
    if not 0 <= found[color] < HOST_COLOR:
        raise HostCallError(
            f"{color} has the value {color.value}; it is from 0 to {HOST_COLOR - 1}."
        )
    for other, number in found.items():
        if other is color or number != found[color]:
            continue
        if shared := places[other] & places[color]:
            raise HostCallError(
                f"{color} and {other} have the value {number} and meet in PE {min(shared)}."
            )
