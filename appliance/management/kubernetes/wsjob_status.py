"""Writes what wsjobs show: their status, and the events that go with it."""

import logging
from collections.abc import Callable, Mapping
from typing import Any

from appliance.cluster.kubernetes.api import ApiError, ApiServer
from appliance.cluster.kubernetes.object_kinds import EVENT, WSJOB, Resource, name_of
from appliance.core.clock import Clock
from appliance.core.cluster.records import JobRecord
from appliance.core.errors import ConflictError, UserError
from appliance.core.ids import JobId
from appliance.management.kubernetes import wsjob_objects as objects
from appliance.management.kubernetes.wsjob_conditions import event_of, news_of

logger = logging.getLogger(__name__)

_SETTLE_SECONDS = 1.0
"""For so long news of a job wait for others, which the same request shows."""


class WsJobStatus:
    """The statuses of the wsjobs of one namespace.

    Args:
        api: The Kubernetes API.
        take: Takes note of a wsjob as it is after a change.
    """

    def __init__(self, api: ApiServer, clock: Clock, take: Callable[[Resource], None]) -> None:
        self._api, self._clock, self._take = api, clock, take
        self._news_since: dict[JobId, float] = {}

    # `Any`: parts of an object.
    def write(self, resource: Resource, wanted: Mapping[str, Any]) -> Resource | None:
        """Let an object have a status; return it as it is then, None if nothing changes."""
        changes = objects.status_changes(resource, wanted)
        if not changes:
            return None
        name = name_of(resource)
        shown = self._api.patch(WSJOB, name, {"status": changes}, subresource="status")
        if shown is None:
            return None
        self._take(shown)
        if (news := news_of(resource, wanted)) is not None:
            reason, message, is_warning = news
            self.tell(shown, reason, message, is_warning=is_warning)
        return shown

    def show(
        self,
        job: JobRecord,
        resource: Resource,
        wanted: Mapping[str, Any],
        *,
        labels: Mapping[str, str],
    ) -> float:
        """Let an object show its job: one request for the status, and one for the rest.

        Args:
            resource: The wsjob as it is.
            wanted: Its status.
            labels: Labels of all that the appliance makes.

        Returns:
            In how many seconds it is to be shown, with what is new by then; 0 if it is shown now.
        """
        if left := self._left(job, resource, wanted, labels):
            return left
        self.forget(job.id)
        resource = self.write(resource, wanted) or resource
        if metadata := objects.metadata_changes(job, resource, labels):
            self.change(resource, metadata)
        return 0.0

    def forget(self, job: JobId) -> None:
        """Take note that nothing of a job is to be shown any more, or that all is."""
        self._news_since.pop(job, None)

    def change(self, resource: Resource, metadata: Mapping[str, Any]) -> Resource | None:
        """Merge into an object's metadata; return it as it is then, None if it is gone."""
        changed = self._api.patch(WSJOB, name_of(resource), {"metadata": metadata})
        if changed is not None:
            self._take(changed)
        return changed

    def _left(
        self,
        job: JobRecord,
        resource: Resource,
        wanted: Mapping[str, Any],
        labels: Mapping[str, str],
    ) -> float:
        """Return for how long news of a job wait for others; its end waits for nothing."""
        is_old = not objects.status_changes(resource, wanted)
        is_old = is_old and not objects.metadata_changes(job, resource, labels)
        if is_old or job.phase.is_terminal:
            return 0.0
        now = self._clock.monotonic_seconds()
        return max(0.0, self._news_since.setdefault(job.id, now) + _SETTLE_SECONDS - now)

    def refuse(self, resource: Resource, why: UserError) -> Resource:
        """Say why no job can be made from a wsjob as it is; return it as it is then."""
        logger.info("Wsjob is refused", extra={"job": name_of(resource), "why": str(why)})
        status = objects.refused_status(resource, str(why), now=self._clock.now())
        return self.write(resource, status) or resource

    def let_wait(self, resource: Resource, why: ConflictError) -> None:
        """Say why no job is made from a wsjob yet."""
        self.write(resource, objects.waiting_status(resource, str(why), now=self._clock.now()))

    def tell(self, resource: Resource, reason: str, message: str, *, is_warning: bool) -> None:
        """Write an event of a wsjob; one that is lost changes nothing."""
        event = event_of(
            resource,
            reason=reason,
            message=message,
            is_warning=is_warning,
            now=self._clock.now(),
        )
        try:
            self._api.create(EVENT, event)
        except ApiError as error:
            story = {"job": name_of(resource), "why": error.message}
            logger.info("Event of a wsjob is not written", extra=story)
