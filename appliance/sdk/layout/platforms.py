"""What a program is compiled for and runs on."""

import os
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from appliance.sdk.symbols import HostCallError

DEFAULT_CORE = "out.core"


class SdkTarget(Enum):
    """An architecture."""

    WSE2 = "wse2"
    WSE3 = "wse3"


class FP16TYPE(Enum):
    """The 16-bit float format of a program."""

    F16 = "f16"
    BF16 = "bf16"
    CB16 = "cb16"


class SimfabConfig:
    """How the simulator runs.

    Args:
        num_threads: Threads that simulate a large program, from 1 to 64.
        suppress_trace: Accepted; the fabric is traced only where it is asked for.
        dump_core: Whether `stop` writes the memory of all PEs.
        core_path: To which file; `out.core` if it is None.
    """

    def __init__(
        self,
        num_threads: int = 16,
        suppress_trace: bool = False,
        dump_core: bool = False,
        core_path: str | os.PathLike[str] | None = None,
    ) -> None:
        if not 1 <= num_threads <= 64:
            raise HostCallError(f"num_threads is {num_threads}; it is from 1 to 64.")
        self.num_threads, self.suppress_trace = num_threads, suppress_trace
        self.dump_core = dump_core
        self.core_path = Path(core_path or DEFAULT_CORE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SdkExecutionPlatform:
    """A simulator or a system.

    Attributes:
        cmaddr: Address of the system; empty for the simulator.
        config: How the simulator runs.
        target: The architecture.
    """

    cmaddr: str
    config: SimfabConfig
    target: SdkTarget


def get_platform(
    cmaddr: str | None = None,
    config: SimfabConfig | None = None,
    target: SdkTarget = SdkTarget.WSE3,
) -> SdkExecutionPlatform:
    """Return a system by its address, or else a simulator."""
    return SdkExecutionPlatform(cmaddr=cmaddr or "", config=config or SimfabConfig(), target=target)


def get_simulator(
    config: SimfabConfig | None = None, target: SdkTarget = SdkTarget.WSE3
) -> SdkExecutionPlatform:
    """Return a simulator."""
    return get_platform(None, config, target)


def get_system(cmaddr: str) -> SdkExecutionPlatform:
    """Return a system by its address."""
    if not cmaddr:
        raise HostCallError("get_system needs the address of a system, as in 10.0.0.1:9000.")
    return get_platform(cmaddr)


class SdkCompileArtifacts:
    """A compiled program, by its directory."""

    def __init__(self, artifacts_path: str | os.PathLike[str]) -> None:
        self.path = Path(artifacts_path).resolve()

    def __fspath__(self) -> str:
        return str(self.path)
