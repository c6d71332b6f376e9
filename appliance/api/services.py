"""What routers call: management's services, and who asks."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from appliance.management.access.authorization import Access
from appliance.management.access.local_users import LocalPeers
from appliance.management.background.activity_service import ActivityService
from appliance.management.background.estimates import Estimates
from appliance.management.changes.feed import ChangeFeed
from appliance.management.cluster.collector import ApplianceCollector
from appliance.management.cluster.inventory import Inventory
from appliance.management.cluster.session_service import SessionService
from appliance.management.cluster.system_service import SystemService
from appliance.management.jobs.driver_service import DriverService
from appliance.management.jobs.job_edits import JobEdits
from appliance.management.jobs.job_service import JobService
from appliance.management.jobs.queue_view import QueueService
from appliance.management.logs.job_logs import LogService
from appliance.management.logs.log_exports import LogExports
from appliance.management.rpc.access_edge import Gate
from appliance.management.store.state import State
from appliance.wire.peers import Endpoint

LOGIN_COOKIE = "wsc_login"

_BEARER = "bearer "


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiServices:
    """Management's services, as REST uses them."""

    state: State
    access: Access
    peers: LocalPeers
    jobs: JobService
    edits: JobEdits
    inventory: Inventory
    activity: ActivityService
    sessions: SessionService
    systems: SystemService
    queue: QueueService
    logs: LogService
    exports: LogExports
    drivers: DriverService
    feed: ChangeFeed
    gate: Gate
    estimates: Estimates
    collector: ApplianceCollector
    has_tls: bool = False


def services_of(request: Request) -> ApiServices:
    """Return the services behind a request."""
    services: ApiServices = request.app.state.services
    return services


def peer_uid_of(request: Request) -> int | None:
    """Return whose connection a request came by; None if the kernel does not know."""
    client, server = request.client, request.scope.get("server")
    if client is None or server is None or server[1] is None:
        return None
    here = Endpoint(str(server[0]), int(server[1]))
    return services_of(request).peers.uid_of(Endpoint(client.host, client.port), here)


def token_of(request: Request) -> str:
    """Return the token that a request carries; empty if it carries none."""
    header = request.headers.get("authorization", "")
    if header.lower().startswith(_BEARER):
        return header[len(_BEARER) :].strip()
    return request.cookies.get(LOGIN_COOKIE, "")


Services = Annotated[ApiServices, Depends(services_of)]
