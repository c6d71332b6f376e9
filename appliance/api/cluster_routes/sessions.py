"""Sessions over REST."""

from typing import Annotated

from fastapi import Header, Path, Query, Response

from appliance.api.cluster_routes.session_schemas import (
    NewSession,
    Session,
    SessionChange,
    SessionList,
    SessionSpecView,
)
from appliance.api.entry import Entry, enter, entry_router
from appliance.api.problems import problems
from appliance.api.services import Services
from appliance.api.tags import version_of, version_tag
from appliance.core.access_rules import rules
from appliance.core.cluster.access import Action, Target
from appliance.core.errors import ConflictError, StaleError

router = entry_router("sessions")

SessionPath = Annotated[str, Path(alias="name", min_length=1, max_length=63)]
DryRun = Annotated[bool, Query(description="Check only, and keep nothing.")]


@router.get("/sessions", responses=problems())
def list_sessions(entry: Annotated[Entry, enter(rules.READ)], services: Services) -> SessionList:
    """Return all sessions and how busy they are."""
    return SessionList(items=[Session.of(view) for view in services.sessions.views()])


@router.get("/sessions/{name}", responses=problems(404))
def get_session(
    name: SessionPath,
    entry: Annotated[Entry, enter(rules.READ)],
    services: Services,
    response: Response,
) -> Session:
    """Return a session with its history; the ETag is its version."""
    session = Session.of(services.sessions.view(name))
    response.headers["etag"] = version_tag(session.version)
    return session


@router.post("/sessions", status_code=201, responses=problems(400, 403, 409))
def create_session(
    wanted: NewSession,
    entry: Annotated[Entry, enter(rules.NEW_SESSION)],
    services: Services,
    *,
    dry_run: DryRun = False,
) -> SessionSpecView:
    """Create a session; with `dry_run` say whether that could be done."""
    spec = SessionSpecView(**wanted.model_dump(exclude={"name"})).to_spec()
    target = _target(wanted.name)
    detail = "create, dry run" if dry_run else "create"
    with entry.change(target, detail=detail):
        record = services.sessions.create(
            wanted.name, spec, by=entry.caller.user.name, dry_run=dry_run
        )
    return SessionSpecView.of(record.spec)


@router.patch("/sessions/{name}", responses=problems(400, 403, 404, 409, 412))
def change_session(
    name: SessionPath,
    wanted: SessionChange,
    *,
    entry: Annotated[Entry, enter(rules.CHANGE_SESSION)],
    services: Services,
    response: Response,
    if_match: Annotated[str, Header(max_length=64)] = "",
    dry_run: DryRun = False,
) -> SessionSpecView:
    """Change a session; administrators of the session may pause it, of the cluster anything."""
    changes = wanted.changes()
    is_pause = set(changes) == {"is_paused"}
    action = Action.PAUSE_SESSION if is_pause else Action.MANAGE_SESSIONS
    version = version_of(if_match)
    detail = wanted.model_dump_json(exclude_unset=True) + (", dry run" if dry_run else "")
    with entry.change(_target(name), action=action, detail=detail):
        present = services.sessions.load(name).version
        if version is not None and version != present:
            raise _stale(name, version, present)
        try:
            record = services.sessions.update(
                name, changes, by=entry.caller.user.name, version=version, dry_run=dry_run
            )
        except ConflictError as error:  # changed since we looked
            raise StaleError(error.message, hint=error.hint) from error
    response.headers["etag"] = version_tag(record.version)
    return SessionSpecView.of(record.spec)


@router.delete("/sessions/{name}", status_code=204, responses=problems(403, 404, 409))
def delete_session(
    name: SessionPath, entry: Annotated[Entry, enter(rules.MANAGE_SESSION)], services: Services
) -> Response:
    """Delete a session that has no unfinished jobs."""
    entry.describe("delete")
    services.sessions.delete(name)
    return Response(status_code=204)


def _target(name: str) -> Target:
    return Target(kind="session", name=name, session=name)


def _stale(name: str, wanted: int, present: int) -> StaleError:
    return StaleError(
        f"Session {name!r} has changed: it is at version {present}, the change is for {wanted}.",
        hint="Get the session again and repeat the change.",
    )
