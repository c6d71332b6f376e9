"""Users, tokens and the audit trail, as rows."""

import datetime as dt
from collections.abc import Sequence

from sqlalchemy import func, insert, select, update
from sqlalchemy.orm import Session

from appliance.core.clock import Clock
from appliance.core.cluster.access import Account, TokenRecord, UserRole, check_account_name
from appliance.core.errors import ConflictError, NotFoundError
from appliance.core.queries.audit_trail import AuditFilter, AuditRecord
from appliance.storage.engine.database import Database
from appliance.storage.engine.writes import Statement, Write
from appliance.storage.schema.access_tables import AuditRow, TokenRow, UserRow
from appliance.storage.schema.tables import table_of

_NEW_AUDIT = Statement(rank=70, clause=insert(table_of(AuditRow)))


class AccessRepository:
    """Users, their tokens and what they changed.

    Args:
        clock: Gives the times.
    """

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def accounts(self) -> Sequence[Account]:
        """Return all accounts, by name."""
        with self._database.reading() as session:
            return [
                _account(row) for row in session.scalars(select(UserRow).order_by(UserRow.name))
            ]

    def load_account(self, name: str) -> Account:
        """Return an account.

        Raises:
            NotFoundError: There is none of that name.
        """
        with self._database.reading() as session:
            return _account(_user(session, name))

    def create_account(
        self, name: str, *, uid: int, gid: int, role: UserRole, sessions: Sequence[str] = ()
    ) -> Account:
        """Store a new account.

        Raises:
            ConflictError: The uid is taken, or the name, which no other is like but for capitals.
            UserError: The name has characters that may look like others, or like nothing.
        """
        check_account_name(name)
        row = UserRow(
            name=name,
            uid=uid,
            gid=gid,
            role=role.value,
            sessions=list(sessions),
            created_at=self._clock.now(),
        )
        with self._database.transaction() as session:
            taken = session.scalar(
                select(UserRow).where(
                    (func.lower(UserRow.name) == name.lower()) | (UserRow.uid == uid)
                )
            )
            if taken is not None:
                raise ConflictError(f"User {taken.name} with uid {taken.uid} exists already.")
            session.add(row)
            session.flush()
            return _account(row)

    def change_account(
        self, name: str, *, role: UserRole | None = None, sessions: Sequence[str] | None = None
    ) -> Account:
        """Change what a user may do; raises `NotFoundError`."""
        with self._database.transaction() as session:
            row = _user(session, name)
            if role is not None:
                row.role = role.value
            if sessions is not None:
                row.sessions = list(sessions)
            return _account(row)

    def set_blocked(self, uid: int, *, is_blocked: bool) -> Account:
        """Block or unblock a user; raises `NotFoundError`."""
        with self._database.transaction() as session:
            row = session.scalar(select(UserRow).where(UserRow.uid == uid))
            if row is None:
                raise NotFoundError(f"There is no user with uid {uid}.")
            if not is_blocked:
                row.blocked_at = None
            elif row.blocked_at is None:
                row.blocked_at = self._clock.now()
            return _account(row)

    def delete_account(self, name: str) -> None:
        """Forget a user and their tokens; raises `NotFoundError`."""
        with self._database.transaction() as session:
            session.delete(_user(session, name))

    def tokens(self, user: str = "") -> Sequence[TokenRecord]:
        """Return the tokens of one user or of all, newest first."""
        query = select(TokenRow).order_by(TokenRow.created_at.desc(), TokenRow.id)
        if user:
            query = query.where(TokenRow.username == user)
        with self._database.reading() as session:
            return [_token(row) for row in session.scalars(query)]

    def find_token(self, token: str) -> TokenRecord | None:
        """Return a token, or None if there is none of that id."""
        with self._database.reading() as session:
            row = session.get(TokenRow, token)
            return None if row is None else _token(row)

    def create_token(
        self,
        token: str,
        *,
        user: str,
        label: str,
        expires_at: dt.datetime | None,
        parent: str = "",
    ) -> TokenRecord:
        """Store a token that is about to be given out; raises `NotFoundError` for the user."""
        row = TokenRow(
            id=token,
            username=user,
            label=label,
            parent=parent,
            created_at=self._clock.now(),
            expires_at=expires_at,
        )
        with self._database.transaction() as session:
            _user(session, user)
            session.add(row)
            session.flush()
            return _token(row)

    def revoke_token(self, token: str) -> TokenRecord:
        """Revoke a token and the logins that came of it; raises `NotFoundError`."""
        now = self._clock.now()
        with self._database.transaction() as session:
            row = session.get(TokenRow, token)
            if row is None:
                raise NotFoundError(f"There is no token {token!r}.")
            either = (TokenRow.id == token) | (TokenRow.parent == token)
            unrevoked = update(TokenRow).where(either, TokenRow.revoked_at.is_(None))
            session.execute(unrevoked.values(revoked_at=now))
            session.refresh(row)
            return _token(row)

    def write_audit(self, record: AuditRecord) -> None:
        """Store a record of a change."""
        row = {
            "at": record.at,
            "username": record.user,
            "uid": record.uid,
            "door": record.entry_point,
            "action": record.action,
            "kind": record.kind,
            "name": record.name[:256],
            "detail": record.detail,
            "problem": record.problem,
        }
        self._database.write(Write(statement=_NEW_AUDIT, key="", rows=(row,)))

    def audit(self, wanted: AuditFilter) -> Sequence[AuditRecord]:
        """Return records of changes, newest first."""
        query = select(AuditRow).order_by(AuditRow.id.desc()).limit(wanted.limit)
        if wanted.user:
            query = query.where(AuditRow.username == wanted.user)
        if wanted.name:
            query = query.where(AuditRow.name == wanted.name)
        if wanted.before:
            query = query.where(AuditRow.id < wanted.before)
        with self._database.reading() as session:
            return [_audit(row) for row in session.scalars(query)]


def _user(session: Session, name: str) -> UserRow:
    row = session.get(UserRow, name)
    if row is None:
        raise NotFoundError(f"There is no user {name!r}.", hint="`appliance user list` lists them.")
    return row


def _account(row: UserRow) -> Account:
    return Account(
        name=row.name,
        uid=row.uid,
        gid=row.gid,
        role=UserRole(row.role),
        sessions=tuple(row.sessions),
        created_at=row.created_at,
        blocked_at=row.blocked_at,
    )


def _token(row: TokenRow) -> TokenRecord:
    return TokenRecord(
        id=row.id,
        user=row.username,
        label=row.label,
        parent=row.parent,
        created_at=row.created_at,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
    )


def _audit(row: AuditRow) -> AuditRecord:
    return AuditRecord(
        id=row.id,
        at=row.at,
        user=row.username,
        uid=row.uid,
        entry_point=row.door,
        action=row.action,
        kind=row.kind,
        name=row.name,
        detail=row.detail,
        problem=row.problem,
    )
