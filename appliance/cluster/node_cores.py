"""The CPU cores of a node, and of the machine that it may share with other nodes."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
"""Drawn by the kernel at boot (random(4)); containers of one machine read the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCores:
    """What a node has to compute with.

    Attributes:
        num_cores: CPU cores that its processes may use.
        machine: The same text for all nodes on one machine; empty where a node's cores are its own.
        machine_cores: CPU cores of that machine.
    """

    num_cores: int
    machine: str = ""
    machine_cores: int = 0

    @classmethod
    def of_this_process(cls) -> Self:
        """Return the cores that this process may use, and those of its machine."""
        return cls(
            num_cores=len(os.sched_getaffinity(0)),
            machine=_BOOT_ID.read_text().strip() if _BOOT_ID.exists() else "",
            machine_cores=os.cpu_count() or 0,
        )

    def share(self, num_here: int, num_on_machine: int, *, part: int = 1) -> int:
        """Return the cores of one of several pods of a kind, at least one.

        Args:
            num_here: How many of them are on the node.
            num_on_machine: How many are on nodes of its machine.
            part: They get one `part`-th of the cores.
        """
        own = self.num_cores // part // num_here
        if not self.machine:
            return max(1, own)
        return max(1, min(own, self.machine_cores // part // num_on_machine))
