"""What is stored with a new job and soon asked for again, once, to launch it."""

from collections import OrderedDict
from typing import Generic, TypeVar

from appliance.core.ids import JobId

_NUM_FRESH = 1024
"""New jobs whose values are remembered; most of them are launched in the batch that makes them."""

_Value = TypeVar("_Value")


class FreshValues(Generic[_Value]):
    """Remembers the values of the newest jobs, so that a launch need not ask the database."""

    def __init__(self) -> None:
        self._values: OrderedDict[JobId, _Value] = OrderedDict()

    def put(self, job: JobId, value: _Value) -> None:
        """Remember the value of a new job."""
        self._values[job] = value
        if len(self._values) > _NUM_FRESH:
            self._values.popitem(last=False)

    def take(self, job: JobId) -> _Value | None:
        """Return the value of a job, and forget it; None if it is not remembered."""
        return self._values.pop(job, None)
