"""Says of wsjobs in namespaces that are no session's that nobody will run them.

Of those namespaces management sees wsjobs alone, and writes nothing there but events. A wsjob of
another appliance is left alone: that one shows its status before we would say anything.
"""

import logging
import threading

from appliance.cluster.kubernetes.api import ApiError, ApiServer
from appliance.cluster.kubernetes.informer import Informer
from appliance.cluster.kubernetes.object_kinds import EVENT, WSJOB, Resource, name_of, uid_of
from appliance.cluster.kubernetes.options import KubernetesOptions
from appliance.cluster.kubernetes.workqueue import WorkQueue
from appliance.core.clock import Clock
from appliance.core.errors import ClusterError
from appliance.management.kubernetes.wsjob_conditions import event_of

logger = logging.getLogger(__name__)

_SYNC_SECONDS = 60.0
_GRACE_SECONDS = 30.0
"""For another appliance to take a wsjob."""

REASON = "NoSession"


class UnmappedWsJobs:
    """The wsjobs that are in none of our namespaces.

    Args:
        api: Management's own namespace.
        options: Which others are ours.
        grace_seconds: A wsjob that has no status by then is nobody's.
    """

    def __init__(
        self,
        api: ApiServer,
        options: KubernetesOptions,
        clock: Clock,
        *,
        grace_seconds: float = _GRACE_SECONDS,
    ) -> None:
        self._api, self._clock, self._grace_seconds = api, clock, grace_seconds
        self._namespaces = {each.namespace: name for name, each in options.sessions.items()}
        self._work = WorkQueue(clock)
        self._informer = Informer(api.in_namespace(""), WSJOB, "", self._look_at)
        self._thread = threading.Thread(target=self._run, name="unmapped", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._informer.start(timeout_seconds=_SYNC_SECONDS)
        self._thread.start()

    def close(self) -> None:
        """Say nothing more."""
        self._work.close()
        self._informer.close()

    def _look_at(self, resource: Resource) -> None:
        if self._is_nobodys(resource):
            self._work.add_after(_key(resource), self._grace_seconds)

    def _is_nobodys(self, resource: Resource) -> bool:
        namespace = resource["metadata"]["namespace"]
        is_ours = namespace == self._api.namespace or namespace in self._namespaces
        return not is_ours and not (resource.get("status") or {}).get("phase")

    def _run(self) -> None:
        while (key := self._work.take()) is not None:
            try:
                resource = self._informer.find(key)
                if resource is not None and self._is_nobodys(resource):
                    self._tell(resource)
                self._work.done(key)
            except ClusterError as error:
                logger.warning(
                    "A wsjob of nobody is told later", extra={"job": key, "why": error.message}
                )
                self._work.retry(key)

    def _tell(self, resource: Resource) -> None:
        """Write one event for each wsjob, whichever management does it."""
        namespace = resource["metadata"]["namespace"]
        ours = [f"{name} (session {session})" for name, session in self._namespaces.items()]
        message = (
            f"Nobody runs this wsjob: namespace {namespace} is no session's. The appliance in "
            f"{self._api.namespace} runs those of {', '.join((self._api.namespace, *sorted(ours)))}"
        )
        event = event_of(
            resource, reason=REASON, message=message, is_warning=True, now=self._clock.now()
        )
        name = f"{name_of(resource)[:200]}.{uid_of(resource)}.unmapped"
        metadata = {**event["metadata"], "name": name}
        try:
            self._api.in_namespace(namespace).create(EVENT, {**event, "metadata": metadata})
        except ApiError as error:
            if not error.is_conflict:
                raise


def _key(resource: Resource) -> str:
    return f"{resource['metadata']['namespace']}/{name_of(resource)}"
