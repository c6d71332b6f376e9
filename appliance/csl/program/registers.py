"""Configuration registers that the simulated machine has: those of colors, on WSE-2.

One word for each color's routes and one for its switch; `native/routes.h` says what their bits are.
Of other registers, and of WSE-3's, nothing is published: a program that names one is refused.
"""

ROUTE_REGISTERS = 0x7F20
SWITCH_REGISTERS = 0x7F40
NUM_COLORS = 24


def is_register(word: int, architecture: str) -> bool:
    """Say whether a word address is that of a color's routes or switch."""
    return architecture == "wse2" and any(
        0 <= word - first < NUM_COLORS for first in (ROUTE_REGISTERS, SWITCH_REGISTERS)
    )


def unknown_register(word: int, architecture: str) -> str:
    """Return why a word address is none, and which are."""
    text = f"there is no configuration register at word address {word:#06x} of a simulated PE"
    if architecture != "wse2":
        return f"{text}: on {architecture} none is known; use <tile_config>"
    return (
        f"{text}: known are {NUM_COLORS} for routes from {ROUTE_REGISTERS:#06x} on and "
        f"{NUM_COLORS} for switches from {SWITCH_REGISTERS:#06x} on, one for each color"
    )
