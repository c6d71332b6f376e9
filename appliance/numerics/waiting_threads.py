"""How long a thread that shares operations spins before it sleeps.

By default a waiting thread of the OpenMP library turns for milliseconds, on a core that MemoryX,
SwarmX or another system needs: a CS-2 with two threads on two cores took twice the processor time.
"""

import os

_SPIN_COUNT = "1000"
"""Turns, some tens of microseconds: longer than from one operation to the next."""


def let_waiting_threads_sleep() -> None:
    """Set the spin count, unless the user has; to be called before torch is imported.

    The library reads its environment once, when it is loaded.
    """
    os.environ.setdefault("GOMP_SPINCOUNT", _SPIN_COUNT)
