"""A copy of the objects that a selector picks, updated by a watch.

A watch continues from the last version that it has seen. When the server no longer has that
version, all objects are listed again, and whatever the copy has and the list lacks counts as
deleted. Listeners are given a name, not a change: they look into the copy and act on what they
find. Of thousands of objects only what somebody reads is held: see `slim`.
"""

import logging
import threading
from collections.abc import Callable, Mapping

from appliance.cluster.kubernetes.api import ApiError, ApiServer, Watch
from appliance.cluster.kubernetes.object_kinds import Kind, Resource, name_of, version_of
from appliance.core.errors import ClusterError

logger = logging.getLogger(__name__)

_RETRY_SECONDS = 1.0
_JOIN_SECONDS = 5.0

OnChange = Callable[[Resource], None]

_UNREAD_ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"


def slim(resource: Resource) -> Resource:
    """Return an object without what is there for other clients: half of it or more."""
    metadata = {key: each for key, each in resource["metadata"].items() if key != "managedFields"}
    if annotations := metadata.get("annotations"):
        metadata["annotations"] = {
            key: each for key, each in annotations.items() if key != _UNREAD_ANNOTATION
        }
    return {**resource, "metadata": metadata}


class Informer:
    """The copy.

    Args:
        kind: What to watch.
        selector: Label selector; empty for all.
        on_change: Told of each object that is new, changed or gone (then as it was last seen); in
            the informer's own thread.
        slimmed: Returns what is held of an object.
        group_of: Names the group that an object is in, for `group`; None for no groups.
    """

    def __init__(
        self,
        api: ApiServer,
        kind: Kind,
        selector: str,
        on_change: OnChange,
        *,
        slimmed: Callable[[Resource], Resource] = slim,
        group_of: Callable[[Resource], str] | None = None,
    ) -> None:
        self._api, self._kind, self._selector = api, kind, selector
        self._on_change, self._slimmed, self._group_of = on_change, slimmed, group_of
        self._lock = threading.Lock()
        self._objects: dict[str, Resource] = {}
        self._groups: dict[str, dict[str, Resource]] = {}
        self._version = ""
        self._watch: Watch | None = None
        self._synced = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"watch-{kind.plural}", daemon=True)

    def start(self, *, timeout_seconds: float) -> None:
        """List everything, then go on watching in the background.

        Raises:
            ClusterError: The list did not come in time; nothing is watched.
        """
        self._thread.start()
        if not self._synced.wait(timeout_seconds):
            self.close()
            raise ClusterError(
                f"The Kubernetes API has not listed {self._kind.plural} in namespace "
                f"{self._api.namespace} within {timeout_seconds:g} seconds.",
                hint="Management's log has the reason.",
            )

    def close(self) -> None:
        """Watch no more."""
        self._stopping.set()
        if (watch := self._watch) is not None:
            watch.stop()
        if self._thread.is_alive():
            self._thread.join(_JOIN_SECONDS)

    def find(self, name: str) -> Resource | None:
        """Return an object as it was last seen; None if there is none.

        Where all namespaces are watched, names are as in `namespace/name`.
        """
        with self._lock:
            return self._objects.get(name)

    def all(self) -> Mapping[str, Resource]:
        """Return all objects by name, as they were last seen."""
        with self._lock:
            return dict(self._objects)

    def group(self, name: str) -> Mapping[str, Resource]:
        """Return the objects of one group by name, as they were last seen."""
        with self._lock:
            return dict(self._groups.get(name, {}))

    def take(self, answer: Resource) -> None:
        """Take note of an object as the answer to a change of it shows it.

        So whoever has changed it does not find it as it was before. What is gone, or was changed
        once more, stays as the watch has told it.
        """
        with self._lock:
            key = self._key(answer)
            present = self._objects.get(key)
            if present is not None and _is_newer(answer, present):
                self._drop(key)
                self._put(key, self._slimmed(answer))

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                if not self._version:
                    self._list()
                self._follow()
            except ApiError as error:
                if error.is_gone:
                    logger.info("Watch has expired", extra={"kind": self._kind.plural})
                    self._version = ""
                    continue
                if self._stopping.is_set():
                    return
                logger.warning(
                    "Watch is broken", extra={"kind": self._kind.plural, "why": error.message}
                )
                self._stopping.wait(_RETRY_SECONDS)

    def _list(self) -> None:
        items, version = self._api.list(self._kind, self._selector)
        fresh = {self._key(item): self._slimmed(item) for item in items}
        with self._lock:
            before, self._objects, self._groups = self._objects, {}, {}
            for key, item in fresh.items():
                self._put(key, item)
        self._version = version
        self._synced.set()
        for name, resource in fresh.items():
            if name not in before or version_of(before[name]) != version_of(resource):
                self._tell(resource)
        for name, resource in before.items():
            if name not in fresh:
                self._tell(resource)

    def _follow(self) -> None:
        watch = self._watch = self._api.watch(self._kind, self._selector, self._version)
        if self._stopping.is_set():
            watch.stop()
        for event, resource in watch:
            if self._stopping.is_set():
                return
            self._version = version_of(resource)
            if event == "BOOKMARK":
                continue
            held = self._slimmed(resource)
            with self._lock:
                self._drop(self._key(held))
                if event != "DELETED":
                    self._put(self._key(held), held)
            self._tell(held)

    def _put(self, key: str, resource: Resource) -> None:
        self._objects[key] = resource
        if self._group_of is not None:
            self._groups.setdefault(self._group_of(resource), {})[key] = resource

    def _drop(self, key: str) -> None:
        before = self._objects.pop(key, None)
        if before is not None and self._group_of is not None:
            name = self._group_of(before)
            self._groups[name].pop(key, None)
            if not self._groups[name]:
                del self._groups[name]

    def _key(self, resource: Resource) -> str:
        name = name_of(resource)
        return name if self._api.namespace else f"{resource['metadata']['namespace']}/{name}"

    def _tell(self, resource: Resource) -> None:
        if not self._stopping.is_set():
            self._on_change(resource)


def _is_newer(one: Resource, other: Resource) -> bool:
    """Whether an object's version is later than another's, as far as their texts say so."""
    versions = version_of(one), version_of(other)
    return all(map(str.isdigit, versions)) and int(versions[0]) > int(versions[1])
