"""What a run waits for before it starts: how other jobs end.

Users write `NAME`, or as they do for Slurm `afterok:NAME:NAME`, `afterany:NAME`, `afternotok:NAME`;
several with commas between must all hold.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from appliance.core.errors import UserError
from appliance.core.ids import JobId


class Outcome(StrEnum):
    """How jobs must end."""

    SUCCESS = "ok"
    """All of them with success."""
    ANY = "any"
    """All of them, in whatever way."""
    FAILURE = "notok"
    """All of them, and at least one without success."""


_WORDS: Mapping[Outcome, str] = {
    Outcome.SUCCESS: "has succeeded",
    Outcome.ANY: "has ended",
    Outcome.FAILURE: "has failed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency:
    """Jobs whose end another one waits for.

    Attributes:
        jobs: Them: one, or those of an array; at least one.
        outcome: How they must end.
    """

    jobs: tuple[JobId, ...]
    outcome: Outcome = Outcome.SUCCESS

    def sentence(self, most: int) -> str:
        """Return what is waited for, as in `wsjob-1, wsjob-2 and 3 more has ended`."""
        more = f" and {len(self.jobs) - most} more" if len(self.jobs) > most else ""
        one_of = "one of " if self.outcome is Outcome.FAILURE and len(self.jobs) > 1 else ""
        return f"{one_of}{', '.join(self.jobs[:most])}{more} {_WORDS[self.outcome]}"

    # `object`: values of a JSON document.
    def to_json(self) -> dict[str, object]:
        """Return it, ready for JSON."""
        return {"jobs": list(self.jobs), "outcome": self.outcome.value}

    @classmethod
    def from_json(cls, value: "str | Mapping[str, object]") -> "Dependency":
        """Return what `to_json` wrote; of older appliances the id of a job that must succeed."""
        if isinstance(value, str):
            return cls(jobs=(JobId(value),))
        jobs = value["jobs"]
        assert isinstance(jobs, list)
        return cls(jobs=tuple(map(JobId, jobs)), outcome=Outcome(str(value["outcome"])))


class Condition(NamedTuple):
    """One name after which something is to start, and how what it names must end."""

    outcome: Outcome
    name: str

    @property
    def text(self) -> str:
        """It, as `parse_conditions` reads it."""
        return f"{self.outcome.value}:{self.name}"


_OUTCOMES: Mapping[str, Outcome] = {
    "": Outcome.SUCCESS,
    **{outcome.value: outcome for outcome in Outcome},
    **{f"after{outcome.value}": outcome for outcome in Outcome},
}
_UNSUPPORTED: Mapping[str, str] = {
    "after": "runs follow ends, not starts",
    "aftercorr": "runs follow whole arrays, not their indices one by one",
    "afterburstbuffer": "there are no burst buffers",
    "expand": "runs do not grow",
    "singleton": "name the run that it is to follow",
}
_HINT = "Write NAME, or afterok:NAME, afterany:NAME or afternotok:NAME; all must hold."


def parse_conditions(texts: Iterable[str]) -> tuple[Condition, ...]:
    """Return what texts ask for together, each condition once.

    Raises:
        UserError: One is not understood, or asks for what is not possible here.
    """
    parts = (part.strip() for text in texts for part in text.split(","))
    found = [condition for part in parts for condition in _conditions(part)]
    return tuple(dict.fromkeys(found))


def _conditions(part: str) -> Iterable[Condition]:
    word, colon, rest = part.rpartition(":") if part.count(":") <= 1 else part.partition(":")
    if "?" in part:
        raise UserError(f"'{part[:80]}' asks for one or the other.", hint=_HINT)
    if (reason := _UNSUPPORTED.get((word if colon else rest).lower())) is not None:
        raise UserError(f"'{part[:80]}' is not possible here: {reason}.", hint=_HINT)
    outcome = _OUTCOMES.get(word.lower()) if word or not colon else None
    if outcome is None:
        raise UserError(f"'{part[:80]}' is not understood at '{word[:80]}'.", hint=_HINT)
    names = rest.split(":")
    if not all(names):
        raise UserError(f"'{part[:80]}' names nothing to follow.", hint=_HINT)
    return [Condition(outcome, name) for name in names]
