"""Configuration registers that the simulated machine has: of colors and input queues, on WSE-2.

One word for each color's routes, one for its switch, and one for each input queue's priority;
`native/routes.h` says what their bits are. Of other registers, and of WSE-3's, nothing is
published: a program that names one is refused.
"""

ROUTE_REGISTERS = 0x7F20
SWITCH_REGISTERS = 0x7F40
QUEUE_REGISTERS = 0x7F58
NUM_COLORS = 24
NUM_INPUT_QUEUES = 8
_COUNTS = {
    ROUTE_REGISTERS: NUM_COLORS,
    SWITCH_REGISTERS: NUM_COLORS,
    QUEUE_REGISTERS: NUM_INPUT_QUEUES,
}


def is_register(word: int, architecture: str) -> bool:
    """Say whether a word address is that of a register."""
    is_known = any(0 <= word - first < count for first, count in _COUNTS.items())
    return architecture == "wse2" and is_known


def unknown_register(word: int, architecture: str) -> str:
    """Return why a word address is none, and which are."""
    text = f"there is no configuration register at word address {word:#06x} of a simulated PE"
    if architecture != "wse2":
        return f"{text}: on {architecture} none is known; use <tile_config>"
    return (
        f"{text}: known are {NUM_COLORS} for routes from {ROUTE_REGISTERS:#06x} on and "
        f"{NUM_COLORS} for switches from {SWITCH_REGISTERS:#06x} on, one for each color, and "
        f"{NUM_INPUT_QUEUES} for priorities of input queues from {QUEUE_REGISTERS:#06x} on"
    )
