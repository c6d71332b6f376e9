"""Arrays of the host as the wavelets of a port, words of 32 bits, and back."""

import numpy as np

from appliance.sdk.host.arrays import HostArray, Words


def words_to_send(source: HostArray, count: int | None) -> Words:
    """Return the first words of an array; all of them if there is no count.

    Raises:
        ValueError: There are fewer, or no count is given for elements of another width.
    """
    flat = np.ascontiguousarray(source).reshape(-1)
    if count is None and flat.dtype.itemsize != 4:
        raise ValueError(f"the array is of {flat.dtype}; say how many wavelets to send of it")
    data = flat.view(np.uint8)
    words = data[: data.size // 4 * 4].view(np.uint32)
    if count is None:
        return words.copy()
    if count < 1 or count > words.size:
        raise ValueError(f"the array has {words.size} words of 32 bits; {count} are to be sent")
    return words[:count].copy()


def check_room(target: HostArray, count: int) -> None:
    """Raise `ValueError` unless an array has room for so many words."""
    if not target.flags.c_contiguous:
        raise ValueError("the array to receive into is not contiguous")
    if count < 1 or 4 * count > target.nbytes:
        raise ValueError(f"the array has room for {target.nbytes // 4} words; {count} are to come")


def store_words(target: HostArray, words: Words) -> None:
    """Write words to the beginning of an array."""
    target.reshape(-1).view(np.uint8)[: 4 * words.size] = words.view(np.uint8)
