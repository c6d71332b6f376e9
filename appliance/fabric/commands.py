"""The host's commands to a running program, executed one after another in the order of issue."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from appliance.core.errors import UserError


@dataclass(frozen=True, slots=True)
class Region:
    """A rectangle of PEs, in coordinates of the program's rectangle."""

    x: int
    y: int
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class CopyIn:
    """Copy mode, host to PEs: `data` of shape (height, width, elements) to what a symbol points at.

    A first or second dimension of 1 is broadcast over rows or columns. With 16 bits the low half
    of each element counts.
    """

    symbol: str | int
    region: Region
    data: NDArray[np.uint32]
    bits: int = 32


@dataclass(frozen=True, slots=True)
class CopyOut:
    """Copy mode, PEs to host: a number of elements of each PE."""

    symbol: str | int
    region: Region
    num_elements: int
    bits: int = 32


@dataclass(frozen=True, slots=True)
class StreamIn:
    """Streaming mode, host to PEs: wavelets to the color's task or queue of each PE."""

    color: int
    region: Region
    data: NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class StreamOut:
    """Streaming mode, PEs to host: a number of wavelets that each PE sends on the color."""

    color: int
    region: Region
    num_elements: int


@dataclass(frozen=True, slots=True)
class PortIn:
    """Wavelets that one PE takes from the host on a color, at the same time as others."""

    name: str
    color: int
    x: int
    y: int
    data: NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class PortOut:
    """A number of wavelets that one PE sends the host on a color, at the same time as others."""

    name: str
    color: int
    x: int
    y: int
    num_wavelets: int


@dataclass(frozen=True, slots=True)
class Launch:
    """Calls an exported function on every PE, with a 32-bit word for each argument."""

    function: str | int
    arguments: tuple[int, ...] = ()


Command = CopyIn | CopyOut | StreamIn | StreamOut | Launch | PortIn | PortOut


def check_region(region: Region, width: int, height: int) -> None:
    """Refuse a region that is empty or goes beyond the program's rectangle.

    Raises:
        UserError: It does.
    """
    fits = region.x >= 0 and region.x + region.width <= width
    fits = fits and region.y >= 0 and region.y + region.height <= height
    if not fits or region.width < 1 or region.height < 1:
        raise UserError(
            f"A region of {region.width} x {region.height} PEs at ({region.x}, {region.y}) "
            f"does not lie in the program's rectangle of {width} x {height}.",
            hint="Correct the corner or the size of the region.",
        )
