"""What a cluster is made of: CS-2 systems and CPU nodes."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """One CS-2, granted whole or not at all.

    Attributes:
        name: Its name, as in `systemf0`.
        is_healthy: Whether jobs may be placed on it.
        notes: Why it is not healthy, for people; may be empty.
    """

    name: str
    is_healthy: bool = True
    notes: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One CPU server.

    Attributes:
        name: Its name.
        roles: What its pods may be: `management`, `memory`, `broadcastreduce`, `worker`, ...
        num_cores: CPU cores.
        memory_bytes: Memory.
    """

    name: str
    roles: tuple[str, ...]
    num_cores: int
    memory_bytes: int
