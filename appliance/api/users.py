"""Users, tokens and the audit trail over REST."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from appliance.api.access_schemas import (
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
from appliance.api.problems import problems
from appliance.api.services import DOOR, Caller, Services
from appliance.core.cluster.access import Action, Principal, Target, UserRole
from appliance.core.cluster.records import User
from appliance.core.errors import NotFoundError
from appliance.management.access.authorization import Access
from appliance.storage.access import AuditFilter, TokenRecord

router = APIRouter(tags=["access"])

_SECONDS_PER_DAY = 86400
UserPath = Annotated[str, Path(min_length=1, max_length=256)]
Limit = Annotated[int, Query(ge=1, le=1000)]


@router.get("/users", responses=problems(403))
def list_users(caller: Caller, services: Services) -> UserList:
    """Return all accounts; for administrators of the cluster."""
    services.access.allow(caller, Action.MANAGE_USERS, Target(kind="user"))
    return UserList(items=[UserView.of(account) for account in services.access.accounts()])


@router.post("/users", status_code=201, responses=problems(403, 409))
def create_user(wanted: NewUser, caller: Caller, services: Services) -> UserView:
    """Make an account."""
    access = services.access
    with access.change(caller, Action.MANAGE_USERS, _user(wanted.name), door=DOOR):
        account = access.create_account(
            wanted.name,
            uid=wanted.uid,
            gid=wanted.gid,
            role=wanted.role,
            sessions=wanted.sessions,
        )
    return UserView.of(account)


@router.get("/users/{name}", responses=problems(403, 404))
def get_user(name: UserPath, caller: Caller, services: Services) -> UserView:
    """Return an account; one's own, or any for administrators of the cluster."""
    if name != caller.user.name:
        services.access.allow(caller, Action.MANAGE_USERS, _user(name))
    return UserView.of(services.access.load_account(name))


@router.patch("/users/{name}", responses=problems(403, 404))
def change_user(name: UserPath, wanted: UserChange, caller: Caller, services: Services) -> UserView:
    """Change a role, or block and unblock."""
    access = services.access
    detail = wanted.model_dump_json(exclude_none=True)
    with access.change(caller, Action.MANAGE_USERS, _user(name), door=DOOR, detail=detail):
        account = access.change_account(name, role=wanted.role, sessions=wanted.sessions)
        if wanted.is_blocked is not None:
            set_blocked = access.block if wanted.is_blocked else access.unblock
            account = set_blocked(account.uid)
    return UserView.of(account)


@router.delete("/users/{name}", status_code=204, responses=problems(403, 404))
def delete_user(name: UserPath, caller: Caller, services: Services) -> Response:
    """Forget a user and their tokens; jobs stay."""
    with services.access.change(caller, Action.MANAGE_USERS, _user(name), door=DOOR):
        services.access.delete_account(name)
    return Response(status_code=204)


@router.get("/tokens", responses=problems())
def list_tokens(caller: Caller, services: Services, user: str = "") -> TokenList:
    """Return one's own tokens, or those of any user for administrators of the cluster."""
    if caller.role is not UserRole.CLUSTER_ADMIN:
        user = user or caller.user.name
    target = Target(kind="token", owner=_owner(services.access, user, caller))
    services.access.allow(caller, Action.MANAGE_TOKENS, target)
    return TokenList(items=[TokenView.of(token) for token in services.access.tokens.list(user)])


@router.post("/tokens", status_code=201, responses=problems(403, 404))
def mint_token(wanted: NewToken, caller: Caller, services: Services) -> MintedToken:
    """Mint a token; its text is shown this once."""
    access = services.access
    target = Target(kind="token", owner=_owner(access, wanted.user, caller))
    with access.change(caller, Action.MANAGE_TOKENS, target, door=DOOR, detail=wanted.user):
        seconds = max(1, int(wanted.days * _SECONDS_PER_DAY))
        minted = access.tokens.mint(wanted.user, label=wanted.label, seconds=seconds)
    return MintedToken(**TokenView.of(minted.record).model_dump(), token=minted.text)


@router.delete("/tokens/{token}", responses=problems(403, 404))
def revoke_token(
    token: Annotated[str, Path(max_length=64)], caller: Caller, services: Services
) -> TokenView:
    """Revoke a token and the logins that came of it."""
    access = services.access
    record = _token(access, token)
    target = Target(kind="token", name=token, owner=_owner(access, record.user, caller))
    with access.change(caller, Action.MANAGE_TOKENS, target, door=DOOR):
        return TokenView.of(access.tokens.revoke(token))


@router.get("/audit", responses=problems(403))
def list_audit(
    caller: Caller,
    services: Services,
    *,
    user: Annotated[str, Query(max_length=256)] = "",
    name: Annotated[str, Query(max_length=256)] = "",
    limit: Limit = 100,
    cursor: Annotated[str, Query(pattern=r"^[0-9]{0,18}$")] = "",
) -> AuditPage:
    """Return changes, newest first; for administrators of the cluster."""
    services.access.allow(caller, Action.READ_AUDIT, Target(kind="audit"))
    wanted = AuditFilter(user=user, name=name, before=int(cursor or 0), limit=limit)
    records = services.access.audit(wanted)
    following = str(records[-1].id) if len(records) == limit else None
    return AuditPage(items=[AuditEntry.of(record) for record in records], next=following)


def _user(name: str) -> Target:
    return Target(kind="user", name=name)


def _token(access: Access, token: str) -> TokenRecord:
    record = access.tokens.find(token)
    if record is None:
        raise NotFoundError(f"There is no token {token!r}.")
    return record


def _owner(access: Access, name: str, caller: Principal) -> User | None:
    """Return the user of a name, as an owner; nobody for one who is not known."""
    if name == caller.user.name:
        return caller.user
    for account in access.accounts():
        if account.name == name:
            return User(uid=account.uid, gid=account.gid, name=account.name)
    return None
