"""The order of the host's arrays: row-major or column-major over the PEs of a region."""

import numpy as np
from numpy.typing import NDArray

from appliance.core.errors import UserError
from appliance.fabric.commands import Region


def arrange_in(
    flat: NDArray[np.uint32], region: Region, num_elements: int, order: str
) -> NDArray[np.uint32]:
    """Return the host's array as (height, width, elements).

    Args:
        flat: What the host gave, in one dimension.
        region: The PEs.
        num_elements: Elements of each PE.
        order: `row`: index (y * width + x) * elements + i. `column`: index
            (i * width + x) * height + y, which is what every public example computes.

    Raises:
        UserError: The array does not have so many elements.
    """
    wanted = region.width * region.height * num_elements
    if flat.size != wanted:
        raise UserError(
            f"The host's array has {flat.size:,} elements; {region.width} x {region.height} PEs "
            f"with {num_elements:,} elements each need {wanted:,}.",
            hint="Correct the region, the elements per PE or the array.",
        )
    if order == "row":
        return flat.reshape(region.height, region.width, num_elements)
    by_element = flat.reshape(num_elements, region.width, region.height)
    return np.ascontiguousarray(by_element.transpose(2, 1, 0))


def arrange_out(array: NDArray[np.uint32], order: str) -> NDArray[np.uint32]:
    """Return an array of shape (height, width, elements) in the host's order, flat."""
    if order == "row":
        return array.reshape(-1)
    return np.ascontiguousarray(array.transpose(2, 1, 0)).reshape(-1)
