"""Series of a job's training: loss, rate and other scalar outputs, step by step.

A series is bounded: when it has grown to twice the limit, every second one of its older points is
dropped, so that a long run keeps its whole course at a coarser step and its end in full.
"""

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import BigInteger, Double, ForeignKey, Integer, String, delete, func, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from appliance.core.cluster.run import POD_SERIES, Point
from appliance.core.ids import JobId
from appliance.storage.engine.database import Database
from appliance.storage.queue.job_filter_sql import IS_UNFINISHED
from appliance.storage.schema.tables import Base, JobRow

MAX_POINTS = 5_000
"""Points that a series keeps at least, once it had them."""
MAX_NAME = 128
"""Characters of a series' name."""
_MOST_COUNTED = 4_096
"""Series whose number of points is remembered."""
_KEPT_AT_END = 1_000
"""The newest points are never thinned out."""


class PointRow(Base):
    """One value of one series of a job."""

    __tablename__ = "points"

    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=True)
    job: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), index=True)
    name: Mapped[str] = mapped_column(String(MAX_NAME))
    session: Mapped[int]
    step: Mapped[int] = mapped_column(BigInteger)
    value: Mapped[float | None] = mapped_column(Double)
    at: Mapped[dt.datetime]


class SeriesRepository:
    """All series of all jobs.

    Args:
        max_points: Points that a series keeps at least.
    """

    def __init__(self, database: Database, *, max_points: int = MAX_POINTS) -> None:
        self._database = database
        self._max_points = max_points
        self._gaps: set[JobId] = set()
        """Jobs of which a point without a number was stored, as far as this process knows."""
        self._counts: dict[tuple[JobId, str], int] = {}
        """Points of series, of those that grew last: counting reads all of a job's pages."""

    def recall(self) -> None:
        """Learn which unfinished jobs had a point without a number; see `may_end_in_gap`."""
        unfinished = select(JobRow.id).where(IS_UNFINISHED)
        query = select(PointRow.job).where(PointRow.job.in_(unfinished), PointRow.value.is_(None))
        with self._database.reading() as session:
            self._gaps.update(map(JobId, session.scalars(query.distinct())))

    def may_end_in_gap(self, job: JobId) -> bool:
        """Whether a job may have a series that ends with no finite number; asks no database.

        True for jobs that had such a point, if this process stored it or has recalled it.
        """
        return job in self._gaps

    def add(self, job: JobId, points: Sequence[Point]) -> None:
        """Store further points of a job, in order of their steps."""
        if not points:
            return
        if any(point.value is None for point in points):
            self._gaps.add(job)
        with self._database.transaction() as session:
            session.add_all(
                PointRow(
                    job=job,
                    name=point.name,
                    session=point.session,
                    step=point.step,
                    value=point.value,
                    at=point.at,
                )
                for point in points
            )
            session.flush()
            for name, num_added in Counter(point.name for point in points).items():
                if self._count(session, job, name, num_added) > 2 * self._max_points:
                    self._thin(session, job, name)

    def of_job(
        self, job: JobId, *, names: Iterable[str] = (), after: int = 0
    ) -> Mapping[str, Sequence[tuple[int, Point]]]:
        """Return a job's series by name, each in order.

        Args:
            names: Only these series; none means all.
            after: Only points that were kept after the one of this number.

        Returns:
            Points with their numbers, which grow.
        """
        query = select(PointRow).where(PointRow.job == job, PointRow.id > after)
        wanted = list(names)
        if wanted:
            query = query.where(PointRow.name.in_(wanted))
        found: dict[str, list[tuple[int, Point]]] = {}
        with self._database.reading() as session:
            for row in session.scalars(query.order_by(PointRow.id)):
                found.setdefault(row.name, []).append((row.id, _point(row)))
        return found

    def latest(self, jobs: Sequence[JobId]) -> Mapping[JobId, Mapping[str, Point]]:
        """Return the newest point of every series of some jobs, of what pods use aside."""
        newest = (
            select(func.max(PointRow.id))
            .where(PointRow.job.in_(list(jobs)), PointRow.name.not_in(POD_SERIES))
            .group_by(PointRow.job, PointRow.name)
        )
        found: dict[JobId, dict[str, Point]] = {}
        with self._database.reading() as session:
            for row in session.scalars(select(PointRow).where(PointRow.id.in_(newest))):
                found.setdefault(JobId(row.job), {})[row.name] = _point(row)
        return found

    def not_finite(self, job: JobId) -> Sequence[Point]:
        """Return, of each series that ends with no finite number, the first point of that end."""
        ended = [point for point in self.latest([job]).get(job, {}).values() if point.value is None]
        with self._database.reading() as session:
            found = [_first_of_end(session, job, point.name) for point in ended]
            return [_point(row) for row in found if row is not None]

    def _count(self, session: Session, job: JobId, name: str, num_added: int) -> int:
        """Return how many points a series has, or would if no transaction had been undone."""
        known = self._counts.pop((job, name), None)
        if known is None:
            of_series = (PointRow.job == job, PointRow.name == name)
            query = select(func.count()).select_from(PointRow).where(*of_series)
            known, num_added = session.scalar(query) or 0, 0
        if len(self._counts) >= _MOST_COUNTED:
            self._counts.pop(next(iter(self._counts)), None)
        self._counts[job, name] = known + num_added
        return known + num_added

    def _thin(self, session: Session, job: JobId, name: str) -> None:
        of_series = (PointRow.job == job, PointRow.name == name)
        self._counts.pop((job, name), None)
        kept_at_end = min(_KEPT_AT_END, self._max_points)
        ids = session.scalars(select(PointRow.id).where(*of_series).order_by(PointRow.id)).all()
        count = len(ids)
        mark = _first_of_end(session, job, name)
        surplus = [
            each for each in ids[1 : count - kept_at_end : 2] if mark is None or each != mark.id
        ]
        for start in range(0, len(surplus), _KEPT_AT_END):
            part = surplus[start : start + _KEPT_AT_END]
            session.execute(delete(PointRow).where(PointRow.id.in_(part)))


def _first_of_end(session: Session, job: JobId, name: str) -> PointRow | None:
    """Return the first point behind the last finite one of a series; None if it ends with that."""
    of_series = (PointRow.job == job, PointRow.name == name)
    finite = select(func.max(PointRow.id)).where(*of_series, PointRow.value.is_not(None))
    last = session.scalar(finite) or 0
    behind = select(PointRow).where(*of_series, PointRow.id > last)
    return session.scalar(behind.order_by(PointRow.id).limit(1))


def _point(row: PointRow) -> Point:
    return Point(name=row.name, session=row.session, step=row.step, value=row.value, at=row.at)
