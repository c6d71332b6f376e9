"""Time limits as a user types them: 3600, 90m, 1h30m, 2d."""

import re

from appliance.core.errors import UserError

_UNITS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_PARTS = re.compile(r"(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s?)?", re.ASCII)


def parse_time_limit(text: str) -> int:
    """Return the seconds; a number without a unit is seconds.

    Raises:
        UserError: It is not understood, or is no time at all.
    """
    found = _PARTS.fullmatch(text)
    parts = found.groups() if found else ()
    seconds = sum(
        int(part) * unit for part, unit in zip(parts, _UNITS.values(), strict=False) if part
    )
    if not seconds:
        raise UserError(
            f"Time limit '{text}' is not understood.", hint="Write seconds, or 90m, 1h30m, 2d."
        )
    return seconds
