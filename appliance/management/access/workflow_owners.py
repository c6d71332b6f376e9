"""The owner of a workflow, from the first call that names it.

A client may bring an id of its own, so a workflow has an owner before anything of it is stored: two
users who name the same new id at once must not both become the first.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable

from appliance.core.cluster.records import User, WorkflowRecord
from appliance.core.ids import WorkflowId

_NUM_REMEMBERED = 65_536
"""Owners that are known without the database; they never change."""


class WorkflowOwners:
    """Knows owners of workflows; safe for threads.

    Args:
        find: Returns a workflow that is kept, or None; may wait for the database.
    """

    def __init__(self, find: Callable[[WorkflowId], WorkflowRecord | None]) -> None:
        self._find = find
        self._lock = threading.Lock()
        self._known: OrderedDict[WorkflowId, User] = OrderedDict()

    def owner_of(self, workflow: WorkflowId, asker: User) -> User:
        """Return the owner of a workflow: the caller, if nobody has named it before."""
        with self._lock:
            known = self._known.get(workflow)
        if known is not None:
            return known
        kept = self._find(workflow)
        with self._lock:
            owner = self._known.setdefault(workflow, kept.user if kept else asker)
            while len(self._known) > _NUM_REMEMBERED:
                self._known.popitem(last=False)
        return owner
