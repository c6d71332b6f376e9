"""Schemas of users, tokens and the audit trail in REST's answers."""

import datetime as dt
from typing import Annotated

from pydantic import BaseModel, Field, SecretStr

from appliance.core.cluster.access import Account, Principal, TokenRecord, UserRole
from appliance.core.integers import MAX_ID
from appliance.core.queries.audit_trail import AuditRecord

Uid = Annotated[int, Field(ge=0, le=MAX_ID)]
UserName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}$")]
MAX_DAYS = 3650


class Me(BaseModel):
    """Who asks."""

    name: str
    uid: int
    gid: int
    role: UserRole
    sessions: list[str]
    is_blocked: bool
    needs_token: bool
    """Whether this appliance wants a token or a login with every request."""
    csrf_token: str
    """What a login's changes carry in the header X-CSRF-Token; empty without a login."""

    @classmethod
    def of(cls, principal: Principal, *, needs_token: bool, csrf_token: str) -> "Me":
        """Return who asks."""
        return cls(
            name=principal.user.name,
            uid=principal.user.uid,
            gid=principal.user.gid,
            role=principal.role,
            sessions=list(principal.sessions),
            is_blocked=principal.is_blocked,
            needs_token=needs_token,
            csrf_token=csrf_token,
        )


class LoginRequest(BaseModel):
    """A token to log in with."""

    token: SecretStr


class LoginWays(BaseModel):
    """How one can log in."""

    needs_login: bool
    """Whether one has to."""
    provider: str
    """What the identity provider is called at which one can; empty if there is none."""


class UserView(BaseModel):
    """An account."""

    name: str
    uid: int
    gid: int
    role: UserRole
    sessions: list[str]
    created_at: dt.datetime
    blocked_at: dt.datetime | None

    @classmethod
    def of(cls, account: Account) -> "UserView":
        """Return an account."""
        return cls(
            name=account.name,
            uid=account.uid,
            gid=account.gid,
            role=account.role,
            sessions=list(account.sessions),
            created_at=account.created_at,
            blocked_at=account.blocked_at,
        )


class UserList(BaseModel):
    """Accounts by name."""

    items: list[UserView]


class NewUser(BaseModel):
    """An account to make."""

    name: UserName
    uid: Uid
    gid: Uid
    role: UserRole = UserRole.USER
    sessions: list[str] = []


class UserChange(BaseModel):
    """What to change of an account; what is left out stays."""

    role: UserRole | None = None
    sessions: list[str] | None = None
    is_blocked: bool | None = None


class TokenView(BaseModel):
    """A token; its text is not kept."""

    id: str
    user: str
    label: str
    is_login: bool
    """Whether it is a browser's login."""
    created_at: dt.datetime
    expires_at: dt.datetime | None
    revoked_at: dt.datetime | None

    @classmethod
    def of(cls, token: TokenRecord) -> "TokenView":
        """Return a token."""
        return cls(
            id=token.id,
            user=token.user,
            label=token.label,
            is_login=token.is_login,
            created_at=token.created_at,
            expires_at=token.expires_at,
            revoked_at=token.revoked_at,
        )


class TokenList(BaseModel):
    """Tokens, newest first."""

    items: list[TokenView]


class NewToken(BaseModel):
    """A token to mint."""

    user: UserName
    label: Annotated[str, Field(max_length=200)] = ""
    days: Annotated[float, Field(gt=0, le=MAX_DAYS)] = 30.0


class MintedToken(TokenView):
    """A fresh token with its text, which is shown this once."""

    token: str


class AuditEntry(BaseModel):
    """A change that somebody made or was refused."""

    id: int
    at: dt.datetime
    user: str
    uid: int
    door: str
    action: str
    kind: str
    name: str
    detail: str
    problem: str
    """Why it was not done; empty if it was."""

    @classmethod
    def of(cls, record: AuditRecord) -> "AuditEntry":
        """Return a record of a change."""
        return cls(
            id=record.id,
            at=record.at,
            user=record.user,
            uid=record.uid,
            door=record.entry_point,
            action=record.action,
            kind=record.kind,
            name=record.name,
            detail=record.detail,
            problem=record.problem,
        )


class AuditPage(BaseModel):
    """Changes, newest first."""

    items: list[AuditEntry]
    next: str | None
    """Cursor of the next page; null on the last one."""
