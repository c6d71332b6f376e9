"""Metrics for Prometheus at `/metrics`, and how REST itself is counted."""

from collections.abc import Iterator
from itertools import chain
from timeit import default_timer
from typing import Annotated

from fastapi import Request
from fastapi.responses import Response
from prometheus_client import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector, CollectorRegistry
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from appliance.api.entry import Entry, enter, entry_router
from appliance.api.problems import problems
from appliance.api.services import Services
from appliance.core.access_rules import rules
from appliance.observability.metrics import REGISTRY, REST_REQUESTS, REST_SECONDS

router = entry_router("metrics")

_NO_ROUTE = "none"
_METHODS = frozenset({"GET", "HEAD", "POST", "PATCH", "PUT", "DELETE", "OPTIONS"})


@router.get("/metrics", responses=problems(), response_class=Response)
def get_metrics(
    request: Request, entry: Annotated[Entry, enter(rules.READ)], services: Services
) -> Response:
    """Return metrics of the appliance and of the pods of running jobs, as Prometheus reads them."""
    encode, content_type = choose_encoder(request.headers.get("accept", ""))
    body: bytes = encode(_Both(services.collector))
    return Response(body, headers={"content-type": content_type})


class _Both(CollectorRegistry):
    """Metrics counted in this process together with those read from the appliance's state."""

    def __init__(self, collector: Collector) -> None:
        super().__init__()
        self._collector = collector

    def collect(self) -> Iterator[Metric]:
        """Yield every metric."""
        yield from chain(REGISTRY.collect(), self._collector.collect())


class RequestMetrics:
    """ASGI middleware that counts and times requests by route.

    Args:
        app: What is counted.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        method = scope["method"] if scope["method"] in _METHODS else "other"
        began = default_timer()

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                route = _route(scope)
                REST_REQUESTS.labels(method, route, str(message["status"])).inc()
                REST_SECONDS.labels(method, route).observe(default_timer() - began)
            await send(message)

        await self._app(scope, receive, counted)


def _route(scope: Scope) -> str:
    """Return the template of the route that answers, of which there are few."""
    path = getattr(scope.get("route"), "path", None)
    return path if isinstance(path, str) else _NO_ROUTE
