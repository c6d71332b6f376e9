"""The tables of notifications."""

import datetime as dt
from typing import Any

from sqlalchemy import JSON, BigInteger, ForeignKey, Integer, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from appliance.storage.schema.tables import Base


class FollowedJobRow(Base):
    """A job of which somebody wants to be told; `seen` is the last event that was looked at."""

    __tablename__ = "followed_jobs"

    job: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    # `Any`: JSON objects of `core.notifications.Target`.
    targets: Mapped[list[dict[str, Any]]] = mapped_column(JSON)
    seen: Mapped[int] = mapped_column(BigInteger)


class DeliveryRow(Base):
    """A notice that is to be sent to one target; `phase` has its news, which may be an alert."""

    __tablename__ = "deliveries"

    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=True)
    job: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), index=True)
    # `Any`: JSON objects of `core.notifications.Target`.
    target: Mapped[dict[str, Any]] = mapped_column(JSON)
    phase: Mapped[str] = mapped_column(String(16))
    message: Mapped[str] = mapped_column(Text)
    at: Mapped[dt.datetime]
    num_attempts: Mapped[int]
    due_at: Mapped[dt.datetime] = mapped_column(index=True)
