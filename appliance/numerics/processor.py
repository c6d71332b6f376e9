"""What Linux says of this machine's processor."""

import functools
from collections.abc import Mapping
from pathlib import Path


@functools.cache
def cpu_info() -> Mapping[str, str]:
    """Return the entries of `/proc/cpuinfo` for the first processor; none where it is not Linux."""
    try:
        lines = Path("/proc/cpuinfo").read_text().partition("\n\n")[0].splitlines()
    except OSError:
        return {}
    pairs = (line.partition(":") for line in lines)
    return {name.strip(): value.strip() for name, _, value in pairs}
