"""The tables of users, tokens and the audit trail."""

import datetime as dt

from sqlalchemy import JSON, BigInteger, ForeignKey, Integer, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from appliance.storage.schema.tables import Base


class UserRow(Base):
    """An account: what the appliance stores about a user."""

    __tablename__ = "users"

    name: Mapped[str] = mapped_column(String(256), primary_key=True)
    uid: Mapped[int] = mapped_column(BigInteger, unique=True)
    gid: Mapped[int] = mapped_column(BigInteger)
    role: Mapped[str] = mapped_column(String(16))
    sessions: Mapped[list[str]] = mapped_column(JSON)
    created_at: Mapped[dt.datetime]
    blocked_at: Mapped[dt.datetime | None]


class TokenRow(Base):
    """A token that was minted. Its text is not kept: the signature proves it."""

    __tablename__ = "tokens"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    username: Mapped[str] = mapped_column(
        String(256), ForeignKey("users.name", ondelete="CASCADE"), index=True
    )
    label: Mapped[str] = mapped_column(Text)
    parent: Mapped[str] = mapped_column(String(32), index=True)
    created_at: Mapped[dt.datetime]
    expires_at: Mapped[dt.datetime | None]
    revoked_at: Mapped[dt.datetime | None]


class ProxyKeyRow(Base):
    """What proxies prove themselves to management with; there is one row.

    Attributes:
        key: Hexadecimal digits.
    """

    __tablename__ = "proxy_keys"

    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    key: Mapped[str] = mapped_column(String(64))


class AuditRow(Base):
    """A change that somebody made or was refused."""

    __tablename__ = "audit"

    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=True)
    at: Mapped[dt.datetime] = mapped_column(index=True)
    username: Mapped[str] = mapped_column(String(256), index=True)
    uid: Mapped[int] = mapped_column(BigInteger)
    door: Mapped[str] = mapped_column(String(16))
    action: Mapped[str] = mapped_column(String(32))
    kind: Mapped[str] = mapped_column(String(32))
    name: Mapped[str] = mapped_column(String(256), index=True)
    detail: Mapped[str] = mapped_column(Text)
    problem: Mapped[str] = mapped_column(Text)
