"""Numbers as people read them: three significant digits at most, and a unit.

The one place for csctl, messages and logs. The dashboard has the same functions in
`appliance/dashboard/web/src/format.ts`; both are held to one table of cases,
`appliance/dashboard/web/src/quantities.json`. Documents for programs (JSON, YAML, REST) carry the
numbers themselves.
"""

import math

_BYTES = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
_COUNTS = ("", "k", "M", "B", "T")
_PREFIXES = ("", "k", "M", "G", "T", "P", "E", "Z", "Y")

_NEXT_UNIT = 999.5
"""From here on three digits would read 1000."""
_LEAST = 1e-3
"""Smaller figures are written with an exponent."""

_MICRO = "\u00b5"


def digits(value: float) -> str:
    """Return a number from 0.001 to 999 with three significant digits at most, half rounded up."""
    # A tie is pushed up, as JavaScript's `toPrecision` does.
    return f"{math.nextafter(value, math.inf):.3g}" if value else "0"


def size(num_bytes: float) -> str:
    """Return bytes, as in `44 GB`; a kilobyte has 1,000 of them."""
    return _scaled(num_bytes, _BYTES)


def rate(bytes_per_second: float) -> str:
    """Return bytes per second, as in `1.5 MB/s`."""
    return f"{size(bytes_per_second)}/s"


def count(number: float) -> str:
    """Return how many there are, as in `1.32 B` (billion) or `12`."""
    return _scaled(number, _COUNTS)


def quantity(value: float, unit: str) -> str:
    """Return a value with a unit and its prefix, as in `2.64 ZFLOP`."""
    return _scaled(value, tuple(f"{prefix}{unit}" for prefix in _PREFIXES))


def figure(value: float) -> str:
    """Return a number without unit: a loss, a learning rate, samples per second."""
    magnitude = abs(value)
    if not math.isfinite(value):
        return "-" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if magnitude == 0 or magnitude >= _LEAST:
        return count(value)
    mantissa, _, exponent = f"{math.nextafter(magnitude, math.inf):.2e}".partition("e")
    return f"{'-' if value < 0 else ''}{float(mantissa):g}e{int(exponent)}"


def percent(share: float) -> str:
    """Return a share from 0 to 1, as in `12.3 %`."""
    return f"{figure(100 * share)} %"


def duration(seconds: float) -> str:
    """Return a span of time, from microseconds to days; from a minute on in two units at most."""
    if not math.isfinite(seconds):
        return "-"
    if seconds < 0:
        return f"-{duration(-seconds)}"
    if seconds < 0.9995e-3:
        return f"{digits(seconds * 1e6)} {_MICRO}s" if seconds else "0 s"
    if seconds < 0.9995:
        return f"{digits(seconds * 1e3)} ms"
    if seconds < 59.95:
        return f"{digits(seconds)} s"
    whole = math.floor(seconds + 0.5)
    if whole < 3600:
        return _two(whole // 60, "min", whole % 60, "s")
    if whole < 86_400:
        return _two(whole // 3600, "h", whole % 3600 // 60, "min")
    return _two(whole // 86_400, "d", whole % 86_400 // 3600, "h")


def _two(large: int, unit: str, small: int, small_unit: str) -> str:
    return f"{large} {unit}" + (f" {small} {small_unit}" if small else "")


def _scaled(value: float, units: tuple[str, ...]) -> str:
    if not math.isfinite(value):
        return "-"
    power, left = 0, abs(value)
    while left >= _NEXT_UNIT and power < len(units) - 1:
        left /= 1000
        power += 1
    sign = "-" if value < 0 else ""
    text = digits(left) if left < _NEXT_UNIT else f"{left:,.0f}"
    return f"{sign}{text} {units[power]}".rstrip()


def progress_words(completed: int, planned: int, remaining_seconds: float | None) -> str:
    """Return, for people, `step 375 of 600, 2 min to go`.

    Args:
        completed: Steps that are complete.
        planned: Steps to run.
        remaining_seconds: Time until they are complete; None if that is not known.
    """
    words = f"step {completed:,} of {planned:,}"
    if remaining_seconds is None or completed >= planned:
        return words
    return f"{words}, {duration(max(round(remaining_seconds), 1))} to go"
