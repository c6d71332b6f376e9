"""What this process occupies in memory, as the kernel counts it."""

from dataclasses import dataclass
from pathlib import Path

_STATUS = Path("/proc/self/status")
_KIBIBYTE = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessMemory:
    """Resident memory of a process.

    Attributes:
        anonymous_bytes: Its own: heap and stacks.
        shared_bytes: Pages of shared segments that it has touched.
        peak_bytes: The most that was ever resident.
    """

    resident_bytes: int
    anonymous_bytes: int
    shared_bytes: int
    peak_bytes: int


def own_memory() -> ProcessMemory:
    """Return the resident memory of this process."""
    fields = dict(line.split(":", 1) for line in _STATUS.read_text().splitlines())
    return ProcessMemory(
        resident_bytes=_bytes(fields, "VmRSS"),
        anonymous_bytes=_bytes(fields, "RssAnon"),
        shared_bytes=_bytes(fields, "RssShmem"),
        peak_bytes=_bytes(fields, "VmHWM"),
    )


def _bytes(fields: dict[str, str], name: str) -> int:
    return int(fields[name].split()[0]) * _KIBIBYTE
