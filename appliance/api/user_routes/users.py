"""Users, tokens and the audit trail over REST."""

from typing import Annotated

from fastapi import Path, Query, Response

from appliance.api.entry import Entry, enter, entry_router
from appliance.api.problems import problems
from appliance.api.services import Services
from appliance.api.user_routes.access_schemas import (
    AuditEntry,
    AuditPage,
    MintedToken,
    NewToken,
    NewUser,
    TokenList,
    TokenView,
    UserChange,
    UserList,
    UserView,
)
from appliance.core.access_rules import rules
from appliance.core.cluster.access import Target
from appliance.core.queries.audit_trail import AuditFilter

router = entry_router("access")

_SECONDS_PER_DAY = 86400
UserPath = Annotated[str, Path(min_length=1, max_length=256)]
Limit = Annotated[int, Query(ge=1, le=1000)]


@router.get("/users", responses=problems(403))
def list_users(entry: Annotated[Entry, enter(rules.LIST_USERS)], services: Services) -> UserList:
    """Return all accounts; for administrators of the cluster."""
    return UserList(items=[UserView.of(account) for account in services.access.accounts()])


@router.post("/users", status_code=201, responses=problems(403, 409))
def create_user(
    wanted: NewUser, entry: Annotated[Entry, enter(rules.NEW_USER)], services: Services
) -> UserView:
    """Make an account."""
    access = services.access
    with entry.change(_user(wanted.name)):
        account = access.create_account(
            wanted.name,
            uid=wanted.uid,
            gid=wanted.gid,
            role=wanted.role,
            sessions=wanted.sessions,
        )
    return UserView.of(account)


@router.get("/users/{name}", responses=problems(403, 404))
def get_user(
    name: UserPath, entry: Annotated[Entry, enter(rules.READ_ACCOUNT)], services: Services
) -> UserView:
    """Return an account; one's own, or any for administrators of the cluster."""
    return UserView.of(services.access.load_account(name))


@router.patch("/users/{name}", responses=problems(403, 404))
def change_user(
    name: UserPath,
    wanted: UserChange,
    entry: Annotated[Entry, enter(rules.MANAGE_USER)],
    services: Services,
) -> UserView:
    """Change a role, or block and unblock."""
    access = services.access
    entry.describe(wanted.model_dump_json(exclude_none=True))
    account = access.change_account(name, role=wanted.role, sessions=wanted.sessions)
    if wanted.is_blocked is not None:
        set_blocked = access.block if wanted.is_blocked else access.unblock
        account = set_blocked(account.uid)
    return UserView.of(account)


@router.delete("/users/{name}", status_code=204, responses=problems(403, 404))
def delete_user(
    name: UserPath, entry: Annotated[Entry, enter(rules.MANAGE_USER)], services: Services
) -> Response:
    """Forget a user and their tokens; jobs stay."""
    services.access.delete_account(name)
    return Response(status_code=204)


@router.get("/tokens", responses=problems())
def list_tokens(
    entry: Annotated[Entry, enter(rules.LIST_TOKENS)], services: Services, user: str = ""
) -> TokenList:
    """Return one's own tokens, or those of any user for administrators of the cluster."""
    if not entry.caller.is_admin:
        user = user or entry.caller.user.name
    entry.allow(Target(kind="token", owner=services.access.owner(user, entry.caller)))
    return TokenList(items=[TokenView.of(token) for token in services.access.tokens.list(user)])


@router.post("/tokens", status_code=201, responses=problems(403, 404))
def mint_token(
    wanted: NewToken, entry: Annotated[Entry, enter(rules.MINT_TOKEN)], services: Services
) -> MintedToken:
    """Mint a token; its text is shown this once."""
    access = services.access
    target = Target(kind="token", owner=access.owner(wanted.user, entry.caller))
    with entry.change(target, detail=wanted.user):
        seconds = max(1, int(wanted.days * _SECONDS_PER_DAY))
        minted = access.tokens.mint(wanted.user, label=wanted.label, seconds=seconds)
    return MintedToken(**TokenView.of(minted.record).model_dump(), token=minted.text)


@router.delete("/tokens/{token}", responses=problems(403, 404))
def revoke_token(
    token: Annotated[str, Path(max_length=64)],
    entry: Annotated[Entry, enter(rules.REVOKE_TOKEN)],
    services: Services,
) -> TokenView:
    """Revoke a token and the logins that came of it."""
    return TokenView.of(services.access.tokens.revoke(token))


@router.get("/audit", responses=problems(403))
def list_audit(
    entry: Annotated[Entry, enter(rules.READ_AUDIT)],
    services: Services,
    *,
    user: Annotated[str, Query(max_length=256)] = "",
    name: Annotated[str, Query(max_length=256)] = "",
    limit: Limit = 100,
    cursor: Annotated[str, Query(pattern=r"^[0-9]{0,18}$")] = "",
) -> AuditPage:
    """Return changes, newest first; for administrators of the cluster."""
    wanted = AuditFilter(user=user, name=name, before=int(cursor or 0), limit=limit)
    records = services.access.audit(wanted)
    following = str(records[-1].id) if len(records) == limit else None
    return AuditPage(items=[AuditEntry.of(record) for record in records], next=following)


def _user(name: str) -> Target:
    return Target(kind="user", name=name)
