"""Reports of use: how much system time went to whom, over a span of time.

System time is the number of systems that a job held, times how long it held them since its last
start. A span cuts it at both ends; a report by month cuts it at the months' ends, too, in UTC.
"""

import csv
import datetime as dt
import io
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from appliance.core.cluster.jobs import Phase
from appliance.core.errors import UserError
from appliance.core.visible_text import visible

LABEL_PREFIX = "label="
_PLAIN = ("user", "session", "month")
_MAX_GROUPINGS = 4
_HOUR_SECONDS = 3600.0
_FORMULA = ("=", "+", "-", "@")


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemUse:
    """What a job held, and for how long.

    Attributes:
        session: Where it ran.
        user: Its owner's name, or number if they have none.
        labels: Its tags.
        num_systems: Systems that it held.
        phase: Where it stands.
        started_at: When it got them.
        ended_at: When it ended; None if it goes on.
    """

    session: str
    user: str
    labels: Mapping[str, str] = field(default_factory=dict)
    num_systems: int
    phase: Phase
    started_at: dt.datetime
    ended_at: dt.datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A span of time; both ends have a time zone."""

    since: dt.datetime
    until: dt.datetime

    def __post_init__(self) -> None:
        if self.until <= self.since:
            raise UserError(
                f"A report from {self.since:%Y-%m-%d %H:%M} to {self.until:%Y-%m-%d %H:%M} has no "
                "time in it.",
                hint="Give an end that is after the beginning.",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageLine:
    """What one group has used.

    Attributes:
        keys: The values that the group has in common, in the order of the groupings.
        num_jobs: Jobs that held systems in the span.
        num_succeeded: Those that ended in it with success.
        num_failed: Those that failed in it.
        num_cancelled: Those that were cancelled in it.
    """

    keys: tuple[str, ...]
    num_jobs: int
    num_succeeded: int
    num_failed: int
    num_cancelled: int
    system_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _UseInSpan:
    """The part of a job's use that lies in one span."""

    use: SystemUse
    since: dt.datetime
    until: dt.datetime

    @property
    def system_seconds(self) -> float:
        return self.use.num_systems * (self.until - self.since).total_seconds()

    def ends_as(self, phase: Phase) -> bool:
        return self.use.phase is phase and self.use.ended_at == self.until


def check_groupings(by: Sequence[str]) -> tuple[str, ...]:
    """Return what a report is grouped by; raises `UserError` if it cannot be."""
    for name in by:
        if name not in _PLAIN and (not name.startswith(LABEL_PREFIX) or name == LABEL_PREFIX):
            raise UserError(
                f"A report cannot be grouped by '{name}'.",
                hint=f"Group by {', '.join(_PLAIN)} or {LABEL_PREFIX}KEY.",
            )
    if not 0 < len(by) <= _MAX_GROUPINGS or len(set(by)) < len(by):
        raise UserError(f"A report is grouped by 1 to {_MAX_GROUPINGS} different things.")
    return tuple(by)


def report(
    uses: Iterable[SystemUse], *, by: Sequence[str], span: Span, now: dt.datetime
) -> Sequence[UsageLine]:
    """Return what each group has used, by its keys if they are months, else the most first.

    Args:
        uses: What jobs held; those outside the span do not count.
        by: `user`, `session`, `month` or `label=KEY`, one or several.
        span: Which time counts.
        now: Until when a job that goes on has held its systems.
    """
    keys = [_KEYS.get(name, _label_of(name)) for name in check_groupings(by)]
    groups: defaultdict[tuple[str, ...], list[_UseInSpan]] = defaultdict(list)
    for use in uses:
        for part in _parts(use, span, now, is_monthly="month" in by):
            groups[tuple(key(part) for key in keys)].append(part)
    lines = [_line(group, parts) for group, parts in groups.items()]
    lines.sort(key=attrgetter("keys"))
    return lines if "month" in by else sorted(lines, key=lambda line: -line.system_seconds)


def as_csv(lines: Iterable[UsageLine], by: Sequence[str]) -> str:
    """Return a report as comma-separated values, with a header; lines end with a newline."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*by, "jobs", "succeeded", "failed", "cancelled", "system_hours"])
    for line in lines:
        outcomes = (line.num_succeeded, line.num_failed, line.num_cancelled)
        hours = f"{line.system_seconds / _HOUR_SECONDS:.6f}"
        writer.writerow([*map(_harmless, line.keys), line.num_jobs, *outcomes, hours])
    return text.getvalue()


def _harmless(cell: str) -> str:
    """Keep spreadsheets from taking a name for a formula, or a part of it for another row.

    They skip white space before a formula, take full-width signs, and end rows at a carriage
    return, which `csv` does not quote.
    """
    text = visible(cell)
    first = unicodedata.normalize("NFKC", text.lstrip())[:1]
    return f"'{text}" if first in _FORMULA else text


def _parts(
    use: SystemUse, span: Span, now: dt.datetime, *, is_monthly: bool
) -> Iterator[_UseInSpan]:
    since, until = max(use.started_at, span.since), min(use.ended_at or now, span.until)
    while is_monthly and since < until and (end := _next_month(since)) < until:
        yield _UseInSpan(use=use, since=since, until=end)
        since = end
    if since < until:
        yield _UseInSpan(use=use, since=since, until=until)


def _next_month(at: dt.datetime) -> dt.datetime:
    first = at.astimezone(dt.UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return (first + dt.timedelta(days=32)).replace(day=1)


def _line(keys: tuple[str, ...], parts: Sequence[_UseInSpan]) -> UsageLine:
    return UsageLine(
        keys=keys,
        num_jobs=len({id(part.use) for part in parts}),
        num_succeeded=sum(part.ends_as(Phase.SUCCEEDED) for part in parts),
        num_failed=sum(part.ends_as(Phase.FAILED) for part in parts),
        num_cancelled=sum(part.ends_as(Phase.CANCELLED) for part in parts),
        system_seconds=sum(part.system_seconds for part in parts),
    )


_KEYS: Mapping[str, Callable[[_UseInSpan], str]] = {
    "user": lambda part: part.use.user,
    "session": lambda part: part.use.session,
    "month": lambda part: f"{part.since.astimezone(dt.UTC):%Y-%m}",
}


def _label_of(name: str) -> Callable[[_UseInSpan], str]:
    key = name.removeprefix(LABEL_PREFIX)
    return lambda part: part.use.labels.get(key, "")
