"""Watches a list and reports what is new, changed or gone."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from google.protobuf.message import Message

from csctl.output.documents.output_formats import name_of

T = TypeVar("T")

INTERVAL_SECONDS = 1.0
"""Between two looks at the cluster; a person sees a change at once, a cluster hardly notices."""


class Changes:
    """What differs from the last look.

    Call it with each look's resources; it returns those that are new or not as they were.
    """

    def __init__(self) -> None:
        self._known: Mapping[str, bytes] = {}

    def __call__(self, messages: Iterable[Message]) -> list[str]:
        """Return the names of resources that are new or have changed, in the list's order."""
        seen = {name_of(each): each.SerializeToString(deterministic=True) for each in messages}
        changed = [name for name, text in seen.items() if self._known.get(name) != text]
        self._known = seen
        return changed


def looks(fetch: Callable[[], T], *, interval_seconds: float = INTERVAL_SECONDS) -> Iterator[T]:
    """Yield what is there, again and again, until the reader has enough."""
    never = threading.Event()
    while True:
        yield fetch()
        never.wait(interval_seconds)
