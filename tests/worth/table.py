"""The table of what became of the defects that were drawn."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.worth.mutants import Mutant, package_of
from tests.worth.trial import Outcome

TABLE = Path(__file__).with_name("table.md")
_HARMLESS = Path(__file__).with_name("changing_nothing.json")


@dataclass(frozen=True, slots=True)
class Tried:
    """A defect and its end.

    Attributes:
        mutant: The defect.
        num_tests: How many tests reach it and were there to notice it.
        outcome: What became of it.
        reason: Why it is none; empty if it is one.
    """

    mutant: Mutant
    num_tests: int
    outcome: Outcome
    reason: str = ""

    @property
    def is_killed(self) -> bool:
        """Whether a test failed."""
        return self.outcome in (Outcome.KILLED, Outcome.HUNG)

    @property
    def is_survivor(self) -> bool:
        """Whether it changes behaviour and no test failed."""
        return not self.is_killed and not self.reason and self.outcome is not Outcome.INVALID


def changing_nothing() -> Mapping[tuple[str, str, str], str]:
    """Return why some mutants behave as the original, by path, text of the line and change."""
    rows = json.loads(_HARMLESS.read_text())
    return {(row["path"], row["line"], row["change"]): row["reason"] for row in rows}


def table(tried: Sequence[Tried], *, seed: int) -> str:
    """Return the Markdown of some trials."""
    return "\n".join(_lines(tried, seed)) + "\n"


def _lines(tried: Sequence[Tried], seed: int) -> Iterator[str]:
    counted = [each for each in tried if each.is_killed or each.is_survivor]
    killed = sum(each.is_killed for each in counted)
    yield "# What the unit tests notice"
    yield ""
    yield f"Written by `python -m tests.worth --mutants {len(tried)} --seed {seed}`."
    yield f"Of {len(tried)} one-token defects {len(counted)} change behaviour; unit tests"
    yield f"notice {killed}."
    yield ""
    yield "| package | defects | noticed |"
    yield "|---|---|---|"
    packages: dict[str, list[Tried]] = defaultdict(list)
    for each in counted:
        packages[package_of(each.mutant.path)].append(each)
    for package, found in packages.items():
        yield f"| `{package}` | {len(found)} | {sum(each.is_killed for each in found)} |"
    yield ""
    yield "| defect | change | tests | outcome |"
    yield "|---|---|---|---|"
    for each in sorted(tried, key=lambda each: (each.is_killed, each.mutant.path)):
        mutant = each.mutant
        outcome = f"changes nothing: {each.reason}" if each.reason else str(each.outcome)
        change = f"`{mutant.old}` `{mutant.new or 'nothing'}`".replace("|", "\\|")
        yield f"| `{mutant}` | {change} | {each.num_tests} | {outcome} |"
