"""The REST application: everything csctl can do, and what a dashboard needs besides."""

from collections.abc import Iterable
from typing import Any

from fastapi import APIRouter, FastAPI

from appliance.api import probes
from appliance.api.cluster_routes import (
    activity,
    cluster,
    estimates,
    metrics,
    sessions,
    stream,
    topology,
)
from appliance.api.compression import Compression
from appliance.api.entry import Holds, rules_of
from appliance.api.errors import install_error_handlers
from appliance.api.job_routes import detached, fabric, jobs, log_exports, logs, queue, runs, wafer
from appliance.api.problems import Problem
from appliance.api.security import BrowserSecurity
from appliance.api.services import LOGIN_COOKIE
from appliance.api.user_routes import login, provider_login, users
from appliance.core.access_rules.model import Rule
from appliance.management.services import Services

API_ROOT = "/api/v1"

_DESCRIPTION = """\
The queue, the jobs and the cluster of a wafer appliance.

* Lists are pages: give `next` of one page as `cursor` of the next.
* Whatever is not granted is a problem document (RFC 9457) with one sentence and a hint.
* A change that must not undo somebody else's carries, as `If-Match`, the ETag of what it was made
  for; 412 says that the object has changed since.
* `GET /api/v1/stream` tells of changes as server-sent events.
* With tokens (`appliance up --tls --tokens`) a request carries `Authorization: Bearer TOKEN`, or
  the cookie of `POST /api/v1/login` and, to change something, the header `X-CSRF-Token`.
"""


def create_app(services: Services, *, hosts: Iterable[str] = ()) -> FastAPI:
    """Return the application over management's services.

    Args:
        services: Management's services.
        hosts: Names that may be asked for; none allows every name.
    """
    app = FastAPI(
        title="Wafer appliance",
        version="1",
        description=_DESCRIPTION,
        openapi_url=f"{API_ROOT}/openapi.json",
        docs_url=None,  # its page loads scripts from elsewhere; the dashboard has its own
        redoc_url=None,
        separate_input_output_schemas=False,
    )
    app.state.services = services
    install_error_handlers(app)
    rest_rules()  # or it does not start: what has no rule is served to nobody
    for prefix, router in _routers():
        app.include_router(router, prefix=prefix)
    app.add_middleware(Compression)
    app.add_middleware(
        BrowserSecurity, tokens=services.access.tokens, hosts=hosts, has_tls=services.has_tls
    )
    app.add_middleware(metrics.RequestMetrics)
    app.add_middleware(Holds)
    app.openapi = lambda: _describe(app)  # type: ignore[method-assign]  # FastAPI's own way
    return app


def rest_rules() -> dict[str, Rule]:
    """Return the rule of each route, by method and path; raises `InternalError` if one has none."""
    return rules_of(_routers())


def _routers() -> tuple[tuple[str, APIRouter], ...]:
    below_root = (
        jobs.router,
        detached.router,
        runs.router,
        wafer.router,
        fabric.router,
        activity.router,
        logs.router,
        log_exports.router,
        queue.router,
        stream.router,
        cluster.router,
        topology.router,
        sessions.router,
        users.router,
        login.router,
        provider_login.router,
        estimates.estimate_router(),
    )
    return (
        *((API_ROOT, router) for router in below_root),
        ("", probes.router),
        ("", metrics.router),
    )


# `Any`: an OpenAPI document is JSON.
def _describe(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document, with problems and the two ways to prove who asks."""
    if app.openapi_schema is None:
        document = FastAPI.openapi(app)
        components = document.setdefault("components", {})
        schemas = components.setdefault("schemas", {})
        schemas["Problem"] = Problem.model_json_schema()
        for unused in ("HTTPValidationError", "ValidationError"):
            schemas.pop(unused, None)
        components["securitySchemes"] = {
            "token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
            "login": {"type": "apiKey", "in": "cookie", "name": LOGIN_COOKIE},
        }
        document["security"] = [{"token": []}, {"login": []}, {}]
        app.openapi_schema = document
    return app.openapi_schema
