"""The most processor time and memory that one run of `cslc` may take.

The compiler bounds loops, calls, values and classes one by one; their products are not bounded, so
a hostile source could still take hours. These bounds hold for whatever a program does.
"""

import resource
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_AGAIN_SECONDS = 0.5
"""The signal is repeated, since an exception in a finalizer is lost."""


class OutOfTimeError(Exception):
    """The processor time is used up."""


@contextmanager
def bounded(*, seconds: int, memory_bytes: int) -> Iterator[None]:
    """Limit what runs inside; a smaller limit of the process stays.

    Args:
        seconds: Processor time; counted in the main thread of a process only.
        memory_bytes: Address space of the process.

    Raises:
        OutOfTimeError: The time was used up.
        MemoryError: The memory was.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    limits = [limit for limit in (soft, hard, memory_bytes) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min(limits), hard))
    is_timed = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGPROF, _raise) if is_timed else None
    if is_timed:
        signal.setitimer(signal.ITIMER_PROF, seconds, _AGAIN_SECONDS)
    try:
        yield
    finally:
        if is_timed:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, before)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _raise(number: int, frame: FrameType | None) -> None:
    raise OutOfTimeError
