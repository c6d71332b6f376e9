"""A call that runs in a thread of its own until someone needs its result."""

import threading
from collections.abc import Callable


class BackgroundCall:
    """A call that has begun; whoever depends on it waits for its end.

    Args:
        name: Of the thread.
        call: What to do. It reports its own failure to whom it may concern at once; here the error
            is kept for those who wait.
    """

    def __init__(self, name: str, call: Callable[[], None]) -> None:
        self._call = call
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait for the end, and raise what the call raised."""
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            self._call()
        except Exception as error:  # noqa: BLE001 - the outermost frame of the thread
            self._error = error
