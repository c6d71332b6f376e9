"""Watches a list and reports what is new, changed or gone."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

from google.protobuf.message import Message

from appliance.core.errors import UserError
from csctl.output.documents.output_formats import name_of

T = TypeVar("T")
M = TypeVar("M", bound=Message)

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


def with_ends(
    fetch: Callable[[], Sequence[M]], find: Callable[[str], M]
) -> Callable[[], Sequence[M]]:
    """Return what fetches a list, and what has left it since the last look as it is now.

    Lists of what has not ended lose what ends; somebody who watches wants to see just that.

    Args:
        fetch: Returns the list.
        find: Returns one resource by its name; raises `UserError` if it is forgotten.
    """
    known: frozenset[str] = frozenset()

    def look() -> Sequence[M]:
        nonlocal known
        found = list(fetch())
        names = frozenset(map(name_of, found))
        for name in sorted(known - names):
            with suppress(UserError):
                found.append(find(name))
        known = names
        return found

    return look
