"""What a simulator lends to whoever debugs it."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from appliance.csl.program import Program
from appliance.fabric.loading import LoadedProgram
from appliance.fabric.memories import Memories
from appliance.fabric.native.loader import Kernel
from appliance.fabric.reports import Inspector


class StopReason(IntEnum):
    """Why the kernel has stopped."""

    QUIET = 0
    LIMIT = 1
    FAULT = 2
    UNBLOCKED = 3
    STREAMED = 4
    BREAK = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a simulator is made of, for whoever debugs it."""

    program: Program
    loaded: LoadedProgram
    kernel: Kernel
    inspector: Inspector
    memories: Memories


class Runner(Protocol):
    """Runs the kernel in the simulator's place, with pauses."""

    def run(self, limit: int, stop: int, target: int, work: int) -> int:
        """Simulate as `fabric_run` does; return a `StopReason`, never `BREAK`."""

    def fail(self, text: str) -> None:
        """Hear that the run cannot go on."""
