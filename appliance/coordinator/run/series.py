"""Scalar outputs, rate of training, and use of memory and processors, on their way to management.

Outputs pass through here as they arrive, whether or not the client fetches them. Between two
reports to management a fast run makes more steps than anybody can look at, so only a limited number
is passed on, evenly spaced, always including the newest and the first that is no finite number.
"""

import math
import threading
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from appliance.core.clock import Clock
from appliance.core.cluster import readings
from appliance.core.cluster.run import (
    NOT_FINITE_EVENT,
    POD_MEMORY,
    POD_PROCESSORS,
    output_words,
)
from protos.wsc.v1.management_pb2 import JobEventReport, PodReport, SeriesPoint

MAX_POINTS = 200
"""Points of one series in one report."""

SAMPLES_PER_SECOND = "samples_per_second"
"""Series of the wall rate: samples between two reports over the time between them."""

_GIB = 2**30

MAX_WARNINGS = 5
"""Warnings about one output of a job: a gradient norm may overflow again and again."""


class SeriesLog:
    """Collects points between reports; used from several threads.

    Args:
        clock: Gives the times of points.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._points: dict[str, list[SeriesPoint]] = {}
        self._newest: dict[str, SeriesPoint] = {}
        self._num_warnings: dict[str, int] = {}
        self._warnings: list[JobEventReport] = []
        self._session = 0
        self._batch_size = 0
        self._last: tuple[int, float] | None = None
        self._step = 0

    def begin(self, session: int, *, batch_size: int) -> None:
        """Note that a session begins; its first step is to come."""
        with self._lock:
            self._session, self._batch_size = session, batch_size
            self._last, self._step = (0, self._clock.monotonic_seconds()), 0

    def record(self, step: int, values: Mapping[str, NDArray[np.generic]]) -> None:
        """Take the outputs of a step.

        Args:
            step: The step, 0-based.
            values: Outputs by name; those of one number become points.
        """
        at = self._clock.now().timestamp()
        scalars = {
            name: float(value.item())
            for name, value in values.items()
            if value.size == 1 and value.dtype.kind in "fiub"
        }
        with self._lock:
            self._step = step + 1
            for name, value in scalars.items():
                point = SeriesPoint(
                    name=name, session=self._session, step=step + 1, value=value, at_seconds=at
                )
                self._watch(point)
                points = self._points.setdefault(name, [])
                points.append(point)
                if len(points) > 2 * MAX_POINTS:
                    self._points[name] = _spread(points)

    def take(self, pods: Iterable[PodReport] = ()) -> list[SeriesPoint]:
        """Return what has come since the last call, by series in order of the steps.

        Args:
            pods: What the job's pods use now; told with the rate, where there are new steps.
        """
        with self._lock:
            taken = [point for points in self._points.values() for point in _spread(points)]
            self._points.clear()
            rate = self._rate()
        return taken if rate is None else [*taken, rate, *_use(pods, rate)]

    def take_warnings(self) -> list[JobEventReport]:
        """Return a warning for each output that has ceased to be finite since the last call."""
        with self._lock:
            taken, self._warnings = self._warnings, []
        return taken

    def _watch(self, point: SeriesPoint) -> None:
        before = self._newest.get(point.name)
        self._newest[point.name] = point
        if math.isfinite(point.value) or not (before is None or math.isfinite(before.value)):
            return
        number = self._num_warnings.get(point.name, 0) + 1
        self._num_warnings[point.name] = number
        if number <= MAX_WARNINGS:
            self._warnings.append(
                JobEventReport(
                    reason=NOT_FINITE_EVENT, message=_warning(point, before), is_warning=True
                )
            )

    def _rate(self) -> SeriesPoint | None:
        now = self._clock.monotonic_seconds()
        if self._last is None:
            return None
        step, since = self._last
        if self._step <= step or now <= since:
            return None
        self._last = (self._step, now)
        return SeriesPoint(
            name=SAMPLES_PER_SECOND,
            session=self._session,
            step=self._step,
            value=(self._step - step) * self._batch_size / (now - since),
            at_seconds=self._clock.now().timestamp(),
        )


def _use(pods: Iterable[PodReport], rate: SeriesPoint) -> Iterator[SeriesPoint]:
    """Yield what pods use together at the step of a rate; pages that they share count once."""
    told = [pod.readings for pod in pods if readings.POD_ANONYMOUS in pod.readings]
    if not told:
        return
    own = sum(each[readings.POD_ANONYMOUS] for each in told)
    shared = max(each.get(readings.POD_SHARED, 0.0) for each in told)
    processors = sum(each.get(readings.POD_PROCESSORS, 0.0) for each in told)
    values = {POD_MEMORY: (own + shared) / _GIB, POD_PROCESSORS: processors}
    for name, value in values.items():
        yield SeriesPoint(
            name=name,
            session=rate.session,
            step=rate.step,
            value=value,
            at_seconds=rate.at_seconds,
        )


def _warning(point: SeriesPoint, before: SeriesPoint | None) -> str:
    said = f"{output_words(point.name)} is {point.value} at step {point.step}"
    if before is None or before.session != point.session:
        return f"{said} of session {point.session}, the first that was looked at"
    return f"{said} of session {point.session}; it was {before.value:.6g} at step {before.step}"


def _spread(points: list[SeriesPoint]) -> list[SeriesPoint]:
    """Return about `MAX_POINTS` of them, evenly spread, the newest and the first NaN among them."""
    stride = -(-len(points) // MAX_POINTS)
    if stride <= 1:
        return points
    first = next((at for at, each in enumerate(points) if not math.isfinite(each.value)), -1)
    last = len(points) - 1
    return [each for at, each in enumerate(points) if at == first or (last - at) % stride == 0]
