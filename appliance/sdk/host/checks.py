"""What a run is held to, as variables of the environment say."""

import os

from appliance.sdk.symbols import HostCallError

CHECKS_VARIABLE = "WSC_CSL_CHECKS"
"""Variable that turns off, as `0`, the search for accesses beyond an array: for speed."""
CYCLES_VARIABLE = "WSC_CSL_TASK_CYCLES"
"""Variable with the cycles after which code that runs without an end is an error."""
_DEFAULT_CYCLES = 1_000_000_000
_MOST_DIGITS = 18


def is_checked() -> bool:
    """Say whether accesses beyond an array are looked for."""
    return os.environ.get(CHECKS_VARIABLE, "1") != "0"


def task_cycles() -> int:
    """Return the cycles after which code that runs without an end is an error.

    Raises:
        HostCallError: The variable is no number of cycles.
    """
    text = os.environ.get(CYCLES_VARIABLE, "") or str(_DEFAULT_CYCLES)
    if not text.isascii() or not text.isdigit() or len(text) > _MOST_DIGITS or not int(text):
        raise HostCallError(
            f"{CYCLES_VARIABLE} is a number of cycles, such as {_DEFAULT_CYCLES}, "
            f"not {text[:30]!r}."
        )
    return int(text)
