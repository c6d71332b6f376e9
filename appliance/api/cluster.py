"""The cluster over REST: systems, nodes, node groups, maintenance."""

import datetime as dt
from importlib import metadata
from typing import Annotated

from fastapi import APIRouter, Header, Path, Query, Response

from appliance.api.cluster_schemas import (
    ClusterView,
    Maintenance,
    MaintenanceList,
    NewMaintenance,
    SystemChange,
    SystemView,
    Versions,
)
from appliance.api.problems import problems
from appliance.api.services import DOOR, ApiServices, Caller, Services
from appliance.api.tags import version_of, version_tag
from appliance.core.cluster.access import Action, Target, name_of
from appliance.core.errors import ConflictError, StaleError
from appliance.management.cluster.inventory import SystemUse
from appliance.management.store.versions import CLIENT_BUILDS
from appliance.storage.systems import no_system

router = APIRouter(tags=["cluster"])

SystemPath = Annotated[str, Path(alias="name", min_length=1, max_length=64)]


@router.get("/cluster", responses=problems())
def get_cluster(caller: Caller, services: Services) -> ClusterView:
    """Return systems, nodes and node groups with the jobs on them."""
    inventory = services.inventory
    return ClusterView.of(inventory.system_uses(), inventory.node_uses(), inventory.group_uses())


@router.get("/systems/{name}", responses=problems(404))
def get_system(
    name: SystemPath, caller: Caller, services: Services, response: Response
) -> SystemView:
    """Return a system; the ETag is its version."""
    system = SystemView.of(_use(services, name))
    response.headers["etag"] = version_tag(system.version)
    return system


@router.patch("/systems/{name}", responses=problems(400, 403, 404, 412))
def change_system(
    name: SystemPath,
    wanted: SystemChange,
    *,
    caller: Caller,
    services: Services,
    response: Response,
    if_match: Annotated[str, Header(max_length=64)] = "",
) -> SystemView:
    """Put a system up, drain it, take it away, or mark its health. Running jobs go on."""
    version = version_of(if_match)
    target = Target(kind="system", name=name)
    detail = wanted.model_dump_json(exclude_unset=True)
    with services.access.change(caller, Action.MANAGE_SYSTEMS, target, door=DOOR, detail=detail):
        try:
            _change(services, name, wanted, version, name_of(caller.user))
        except ConflictError as error:
            raise StaleError(error.message, hint=error.hint) from error
    system = SystemView.of(_use(services, name))
    response.headers["etag"] = version_tag(system.version)
    return system


@router.get("/maintenance", responses=problems())
def list_maintenance(
    caller: Caller, services: Services, *, with_past: Annotated[bool, Query()] = False
) -> MaintenanceList:
    """Return planned and running maintenance."""
    windows = services.systems.windows(with_past=with_past)
    return MaintenanceList(items=[Maintenance.of(window) for window in windows])


@router.post("/maintenance", status_code=201, responses=problems(400, 403, 404, 409))
def plan_maintenance(
    wanted: NewMaintenance, caller: Caller, services: Services, *, dry_run: bool = False
) -> MaintenanceList:
    """Plan a time in which systems are away; with `dry_run` check only."""
    target = Target(kind="system", name=",".join(wanted.systems))
    detail = f"maintenance{', dry run' if dry_run else ''}"
    starts_at = wanted.starts_at
    if starts_at is not None and starts_at.tzinfo is None:
        starts_at = starts_at.replace(tzinfo=dt.UTC)
    with services.access.change(caller, Action.MANAGE_SYSTEMS, target, door=DOOR, detail=detail):
        windows = services.systems.plan_maintenance(
            wanted.systems,
            starts_at=starts_at,
            seconds=wanted.seconds,
            notes=wanted.notes,
            dry_run=dry_run,
        )
    return MaintenanceList(items=[Maintenance.of(window) for window in windows])


@router.delete("/maintenance/{plan_id}", status_code=204, responses=problems(403, 404))
def end_maintenance(
    plan_id: Annotated[str, Path(max_length=64)], caller: Caller, services: Services
) -> Response:
    """Give systems back before the planned end, or call their maintenance off."""
    target = Target(kind="maintenance", name=plan_id)
    with services.access.change(caller, Action.MANAGE_SYSTEMS, target, door=DOOR, detail="end"):
        services.systems.end_maintenance(plan_id)
    return Response(status_code=204)


@router.get("/version", responses=problems())
def get_version(caller: Caller) -> Versions:
    """Return what this appliance is, and which clients it serves."""
    return Versions(
        appliance=metadata.version("open-wafer-appliance"), clients=sorted(CLIENT_BUILDS)
    )


def _change(
    services: ApiServices, name: str, wanted: SystemChange, version: int | None, by: str
) -> None:
    systems = services.systems
    if wanted.state is not None:
        system = systems.set_state(name, wanted.state, notes=wanted.notes, version=version, by=by)
        version = system.version
    if wanted.is_healthy is not None:
        systems.set_health(
            name, is_healthy=wanted.is_healthy, notes=wanted.notes, version=version, by=by
        )
    if wanted.state is None and wanted.is_healthy is None:
        systems.load(name)


def _use(services: ApiServices, name: str) -> SystemUse:
    for use in services.inventory.system_uses():
        if use.system.name == name:
            return use
    raise no_system(name)
