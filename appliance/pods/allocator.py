"""How this process's memory allocator treats large blocks that were freed."""

import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""Parameters of glibc's `mallopt`, from malloc.h."""

_LARGEST_INT = 2**31 - 1


def use_one_arena() -> None:
    """Let all threads allocate in one place; call it before there are any.

    Those that they get otherwise cannot hold large blocks, and each keeps freed ones for itself.
    """
    _set((_ARENA_MAX, 1))


def keep_freed_memory() -> bool:
    """Let memory of freed blocks be used again instead of being given back to the system.

    By default glibc maps every block above some size anew and unmaps it when it is freed, so that
    each one is paid for by page faults: 4 % of a training step of a small GPT. Afterwards
    the process keeps what it needed at most, which is what a CS-2 needs again one step later.

    Returns:
        Whether the C library knows of it; another one than glibc is left alone.
    """
    return _set((_MMAP_THRESHOLD, 2**30), (_TRIM_THRESHOLD, _LARGEST_INT))


def return_freed_memory(least_bytes: int) -> None:
    """Give back what is free now, and from now on blocks of that size as soon as they are freed.

    By default glibc keeps the blocks it has come to see often. With tensors of many megabytes
    coming and going its heaps then hold several times what is in use: 1 GB after 60 updates of
    16 MB each, measured.

    Args:
        least_bytes: From which size on.
    """
    _set((_MMAP_THRESHOLD, least_bytes), (_TRIM_THRESHOLD, 2 * least_bytes))
    give_back_free_memory()


def give_back_free_memory() -> None:
    """Give the system what is free in the heap, after something large that does not come again."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _set(*settings: tuple[int, int]) -> bool:
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and all([mallopt(*setting) == 1 for setting in settings])
