"""What routers call: management's services, and who asks."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from appliance.core.access import Principal
from appliance.core.records import User
from appliance.management.access import Access
from appliance.management.activity import ActivityService
from appliance.management.drivers import DriverService
from appliance.management.feed import ChangeFeed
from appliance.management.inventory import Inventory
from appliance.management.job_edits import JobEdits
from appliance.management.job_logs import LogService
from appliance.management.jobs import JobService
from appliance.management.log_exports import LogExports
from appliance.management.metrics import ApplianceCollector
from appliance.management.queue_view import QueueService
from appliance.management.sessions import SessionService
from appliance.management.state import State
from appliance.management.systems import SystemService

DOOR = "rest"
"""The name of this door in the audit trail."""

LOGIN_COOKIE = "wsc_login"

_BEARER = "bearer "


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiServices:
    """Management's services, as REST uses them."""

    state: State
    access: Access
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
    collector: ApplianceCollector
    has_tls: bool = False


def services_of(request: Request) -> ApiServices:
    """Return the services behind a request."""
    services: ApiServices = request.app.state.services
    return services


def identify(request: Request) -> Principal:
    """Return who asks, by bearer token or by login; raises `UnauthenticatedError`."""
    return services_of(request).access.identify(User(), token_of(request))


def token_of(request: Request) -> str:
    """Return the token that a request carries; empty if it carries none."""
    header = request.headers.get("authorization", "")
    if header.lower().startswith(_BEARER):
        return header[len(_BEARER) :].strip()
    return request.cookies.get(LOGIN_COOKIE, "")


Services = Annotated[ApiServices, Depends(services_of)]
Caller = Annotated[Principal, Depends(identify)]
