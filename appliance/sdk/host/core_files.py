"""Core files: the memory of all PEs at one moment, for `numpy.load`.

    memory    bytes, shape (PEs, bytes); PEs without code are left out
    places    column and row of each of these PEs in the program's rectangle
cycle     the clock cycle
origin    column and row of the first PE, as `read_symbol` counts them
"""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from appliance.core.errors import UserError

if TYPE_CHECKING:
    from appliance.fabric.host_interface import Simulator


def write_core(path: Path, simulator: "Simulator", origin: tuple[int, int]) -> None:
    """Write a core file.

    Raises:
        UserError: The file cannot be written.
    """
    found = list(simulator.pe_memories())
    size = max((len(data) for _, _, data in found), default=0)
    memory = np.zeros((len(found), size), np.uint8)
    for row, (_, _, data) in zip(memory, found, strict=True):
        row[: len(data)] = np.frombuffer(data, np.uint8)
    try:
        with path.open("wb") as file:
            np.savez_compressed(
                file,
                memory=memory,
                places=np.array([(x, y) for x, y, _ in found]),
                cycle=np.uint64(simulator.cycle()),
                origin=np.array(origin),
            )
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error}.") from error
