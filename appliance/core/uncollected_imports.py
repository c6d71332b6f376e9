"""Python's collector of cycles, while a program imports what it needs."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected_imports() -> Iterator[None]:
    """Import without the collector, and keep what is there afterwards from it for good.

    Modules are hundreds of thousands of objects, which the collector would look at again and again
    as they become more, and again in every full collection of the program: up to a fifth of what
    the imports take. In a process that forks others its marks would also copy every page that they
    share.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
