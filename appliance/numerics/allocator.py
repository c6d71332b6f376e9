"""How this process's memory allocator treats large tensors that were freed."""

import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""Parameters of glibc's `mallopt`, from malloc.h."""

_LARGEST_INT = 2**31 - 1


def keep_freed_memory() -> bool:
    """Let memory of freed tensors be used again instead of being given back to the system.

    By default glibc maps every tensor above some size anew and unmaps it when it is freed, so that
    each activation is paid for by page faults: 4 % of a training step of a small GPT. Afterwards
    the process keeps what it needed at most, which is what a CS-2 needs again one step later.

    Returns:
        Whether the C library knows of it; another one than glibc is left alone.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    # One arena: the others, which threads get, cannot hold large tensors.
    settings = ((_MMAP_THRESHOLD, 2**30), (_TRIM_THRESHOLD, _LARGEST_INT), (_ARENA_MAX, 1))
    return all([mallopt(parameter, value) == 1 for parameter, value in settings])


def give_back_free_memory() -> None:
    """Give the system what is free in the heap, after something large that does not come again."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
