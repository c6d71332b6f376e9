"""Pods in namespaces whose LimitRanges give containers limits that they have not asked for.

The server gives a container without a limit the default one, also where that is below what the
container requests, and then refuses the pod as invalid; so a job whose plan needs more memory than
the default could never run. What a pod requests is therefore its limit, too, where the default is
lower, and a request below the least that is allowed is raised to it. All else is the server's: what
is more than the most that is allowed, or has no ratio that is, it refuses, and says why.

Source: Kubernetes, plugin/pkg/admission/limitranger/admission.go.
"""

import http
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from appliance.cluster.kubernetes.api import ApiError, ApiServer
from appliance.cluster.kubernetes.limits.amounts import amount_of
from appliance.cluster.kubernetes.object_kinds import LIMIT_RANGE, Resource
from appliance.core.clock import Clock

logger = logging.getLogger(__name__)

_KNOWN_SECONDS = 30.0
"""For so long what a namespace says is taken as known: many jobs start at once."""

_OF_PODS = ("Container", "Pod")


def fitted(pod: Resource, ranges: Sequence[Resource]) -> Resource:
    """Return a pod as the LimitRanges of its namespace want it, where that is possible.

    Args:
        pod: It has one container.
        ranges: All LimitRanges of its namespace.
    """
    items = [each for found in ranges for each in (found.get("spec") or {}).get("limits") or ()]
    items = [each for each in items if each.get("type") in _OF_PODS]
    (container,) = pod["spec"]["containers"]
    resources = container.get("resources") or {}
    requests, limits = dict(resources.get("requests") or {}), dict(resources.get("limits") or {})
    for name in requests.keys() - limits.keys():
        requests[name] = _request(requests[name], _values(items, "min", name))
        limits |= _limit(name, requests[name], items)
    resources = {**resources, "requests": requests, "limits": limits}
    return {**pod, "spec": {**pod["spec"], "containers": [{**container, "resources": resources}]}}


def _request(asked: str, least: Sequence[str]) -> str:
    """Return the most of what is asked and what is the least."""
    return max((asked, *least), key=amount_of)


def _limit(name: str, request: str, items: Sequence[Mapping[str, Any]]) -> Mapping[str, str]:
    """Return the limit that a container without one has to say itself; empty for none."""
    of_containers = [each for each in items if each["type"] == "Container"]
    defaults = _values(of_containers, "default", name) or _values(of_containers, "max", name)
    if defaults:  # of several LimitRanges' nobody says which one is given
        is_low = min(map(amount_of, defaults)) < amount_of(request)
        return {name: request} if is_low else {}
    most = _values(items, "max", name)  # of whole pods: containers have to say a limit
    return {name: max((request, min(most, key=amount_of)), key=amount_of)} if most else {}


def _values(items: Sequence[Mapping[str, Any]], field: str, name: str) -> Sequence[str]:
    return [str(each[field][name]) for each in items if name in (each.get(field) or {})]


class LimitRanges:
    """The LimitRanges of a namespace.

    Args:
        api: The namespace.
        clock: Times for how long they are known.
    """

    def __init__(self, api: ApiServer, clock: Clock) -> None:
        self._api, self._clock = api, clock
        self._found: Sequence[Resource] = ()
        self._until_seconds = -1.0

    def fit(self, pods: Sequence[Resource]) -> Iterator[Resource]:
        """Yield pods as the namespace wants them."""
        if not pods:
            return
        now = self._clock.monotonic_seconds()
        if now >= self._until_seconds:
            self._found, self._until_seconds = self._list(), now + _KNOWN_SECONDS
        for pod in pods:
            yield fitted(pod, self._found) if self._found else pod

    def forget(self) -> None:
        """Ask again at the next pod: the server has refused one."""
        self._until_seconds = -1.0

    def _list(self) -> Sequence[Resource]:
        try:
            return self._api.list(LIMIT_RANGE)[0]
        except ApiError as error:
            if error.status != http.HTTPStatus.FORBIDDEN:
                raise
            logger.warning("LimitRanges are not known", extra={"why": error.message})
            return ()
