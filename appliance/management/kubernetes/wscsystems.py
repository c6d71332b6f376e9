"""Shows the cluster's systems as wscsystems of Kubernetes, and applies edits made there.

Whoever may edit wscsystems may drain a system or take it away; Kubernetes decides who that is.
"""

import logging
import threading
from collections.abc import Mapping
from typing import Any

from appliance.cluster.kubernetes.api import ApiError, ApiServer
from appliance.cluster.kubernetes.informer import Informer
from appliance.cluster.kubernetes.object_kinds import WSCSYSTEM, Resource, name_of
from appliance.cluster.kubernetes.workqueue import WorkQueue
from appliance.core.clock import Clock
from appliance.core.cluster.systems import SystemState
from appliance.core.errors import ClusterError
from appliance.management.cluster.inventory import Inventory, SystemUse
from appliance.management.cluster.system_service import SystemService
from appliance.management.kubernetes.wsjob_objects import status_changes

logger = logging.getLogger(__name__)

_SYNC_SECONDS = 60.0
_RESYNC_SECONDS = 60.0
_ALL = "systems"


class WscSystems:
    """The wscsystems of one namespace.

    Args:
        api: The Kubernetes API.
        inventory: Which systems there are, and who holds them.
        systems: Changes them.
        labels: Labels of all that the appliance makes.
    """

    def __init__(
        self,
        api: ApiServer,
        inventory: Inventory,
        systems: SystemService,
        clock: Clock,
        *,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        self._labels = dict(labels or {})
        self._api, self._inventory, self._systems = api, inventory, systems
        self._work = WorkQueue(clock)
        self._informer = Informer(api, WSCSYSTEM, "", lambda _: self._work.add(_ALL))
        self._thread = threading.Thread(target=self._run, name="wscsystems", daemon=True)

    def start(self) -> None:
        """Begin to synchronise both sides."""
        self._informer.start(timeout_seconds=_SYNC_SECONDS)
        self._work.add(_ALL)
        self._thread.start()

    def look(self, _: str = "") -> None:
        """Take note that a system, or who holds it, has changed; in any thread."""
        self._work.add(_ALL)

    def close(self) -> None:
        """Stop; nothing is changed any more."""
        self._work.close()
        self._informer.close()

    def _run(self) -> None:
        while self._work.take() is not None:
            try:
                self._sync()
                self._work.done(_ALL)
                self._work.add_after(_ALL, _RESYNC_SECONDS)
            except ClusterError as error:
                is_race = isinstance(error, ApiError) and error.is_conflict
                level = logging.DEBUG if is_race else logging.WARNING
                logger.log(level, "Wscsystems are looked at again", extra={"why": error.message})
                self._work.retry(_ALL)
            except Exception:  # outermost loop of the thread that keeps every wscsystem
                logger.exception("Wscsystems cannot be kept in step")
                self._work.retry(_ALL)

    def _sync(self) -> None:
        present = self._informer.all()
        uses = {use.system.name: use for use in self._inventory.system_uses()}
        for name, use in uses.items():
            resource = present.get(name)
            if resource is None:
                metadata = {"name": name, "labels": self._labels}
                body = {"metadata": metadata, "spec": {"state": use.system.state.value}}
                resource = self._api.create(WSCSYSTEM, body)
            self._sync_one(use, resource)
        for name in present.keys() - uses.keys():
            self._api.delete(WSCSYSTEM, name)  # there is no such system (any more)

    def _sync_one(self, use: SystemUse, resource: Resource) -> None:
        system, generation = use.system, resource["metadata"].get("generation", 0)
        status = resource.get("status") or {}
        wanted = (resource.get("spec") or {}).get("state") or system.state.value
        is_edited = status.get("observedGeneration") not in (None, generation)
        if is_edited and wanted != system.state.value:
            notes = (resource.get("spec") or {}).get("notes") or ""
            system = self._systems.set_state(system.name, SystemState(wanted), notes=notes)
            logger.info("System is changed with kubectl", extra={"system": system.name})
        fields: dict[str, Any] = {
            "state": system.state.value,
            "healthy": system.is_healthy,
            "use": "Busy" if use.holder else "Idle",
            "job": use.holder.id if use.holder else "",
            "notes": system.notes,
            "observedGeneration": generation,
        }
        if changes := status_changes(resource, fields):
            name = name_of(resource)
            self._api.patch(WSCSYSTEM, name, {"status": changes}, subresource="status")
