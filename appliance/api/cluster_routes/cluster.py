"""The cluster over REST: systems, nodes, node groups, maintenance."""

import datetime as dt
from importlib import metadata
from typing import Annotated

from fastapi import Header, Path, Query, Response

from appliance.api.cluster_routes.cluster_schemas import (
    ClusterView,
    Maintenance,
    MaintenanceList,
    NewMaintenance,
    SystemChange,
    SystemView,
    Versions,
)
from appliance.api.entry import Entry, enter, entry_router
from appliance.api.problems import problems
from appliance.api.services import Services
from appliance.api.tags import version_of, version_tag
from appliance.core.access_rules import rules
from appliance.core.cluster.access import Target, name_of
from appliance.core.errors import ConflictError, StaleError
from appliance.management.store.versions import CLIENT_BUILDS

router = entry_router("cluster")

SystemPath = Annotated[str, Path(alias="name", min_length=1, max_length=64)]


@router.get("/cluster", responses=problems())
def get_cluster(entry: Annotated[Entry, enter(rules.READ)], services: Services) -> ClusterView:
    """Return systems, nodes and node groups with the jobs on them."""
    inventory = services.inventory
    return ClusterView.of(inventory.system_uses(), inventory.node_uses(), inventory.group_uses())


@router.get("/systems/{name}", responses=problems(404))
def get_system(
    name: SystemPath,
    entry: Annotated[Entry, enter(rules.READ)],
    services: Services,
    response: Response,
) -> SystemView:
    """Return a system; the ETag is its version."""
    system = SystemView.of(services.inventory.system_use(name))
    response.headers["etag"] = version_tag(system.version)
    return system


@router.patch("/systems/{name}", responses=problems(400, 403, 404, 412))
def change_system(
    name: SystemPath,
    wanted: SystemChange,
    *,
    entry: Annotated[Entry, enter(rules.MANAGE_SYSTEM)],
    services: Services,
    response: Response,
    if_match: Annotated[str, Header(max_length=64)] = "",
) -> SystemView:
    """Put a system up, drain it, take it away, or mark its health. Running jobs go on."""
    version = version_of(if_match)
    entry.describe(wanted.model_dump_json(exclude_unset=True))
    try:
        _change(services, name, wanted, version, name_of(entry.caller.user))
    except ConflictError as error:
        raise StaleError(error.message, hint=error.hint) from error
    system = SystemView.of(services.inventory.system_use(name))
    response.headers["etag"] = version_tag(system.version)
    return system


@router.get("/maintenance", responses=problems())
def list_maintenance(
    entry: Annotated[Entry, enter(rules.READ)],
    services: Services,
    *,
    with_past: Annotated[bool, Query()] = False,
) -> MaintenanceList:
    """Return planned and running maintenance."""
    windows = services.systems.windows(with_past=with_past)
    return MaintenanceList(items=[Maintenance.of(window) for window in windows])


@router.post("/maintenance", status_code=201, responses=problems(400, 403, 404, 409))
def plan_maintenance(
    wanted: NewMaintenance,
    entry: Annotated[Entry, enter(rules.PLAN_MAINTENANCE)],
    services: Services,
    *,
    dry_run: bool = False,
) -> MaintenanceList:
    """Plan a time in which systems are away; with `dry_run` check only."""
    target = Target(kind="system", name=",".join(wanted.systems))
    detail = f"maintenance{', dry run' if dry_run else ''}"
    starts_at = wanted.starts_at
    if starts_at is not None and starts_at.tzinfo is None:
        starts_at = starts_at.replace(tzinfo=dt.UTC)
    with entry.change(target, detail=detail):
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
    plan_id: Annotated[str, Path(max_length=64)],
    entry: Annotated[Entry, enter(rules.END_MAINTENANCE)],
    services: Services,
) -> Response:
    """Give systems back before the planned end, or call their maintenance off."""
    entry.describe("end")
    services.systems.end_maintenance(plan_id)
    return Response(status_code=204)


@router.get("/version", responses=problems())
def get_version(entry: Annotated[Entry, enter(rules.READ)]) -> Versions:
    """Return what this appliance is, and which clients it serves."""
    return Versions(
        appliance=metadata.version("open-wafer-appliance"), clients=sorted(CLIENT_BUILDS)
    )


def _change(
    services: Services, name: str, wanted: SystemChange, version: int | None, by: str
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
