"""The table of what became of the defects that were drawn."""

import json
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

from tests.worth.mutants import ROOT, Mutant, package_of
from tests.worth.trial import Outcome

TABLE = Path(__file__).with_name("table.md")
_SAMPLES = Path(__file__).with_name("samples.json")
_DECIDING = (
    *("appliance/scheduler", "appliance/compiler", "appliance/csl", "appliance/wafer"),
    *("appliance/management/access", "appliance/storage", "appliance/core"),
)
"""Packages that decide purely: their own unit tests are to notice 80 % of their defects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """What the unit tests have noticed of a defect.

    Attributes:
        outcome: What became of it.
        is_own: Whether a test of its own package noticed it.
    """

    outcome: Outcome
    is_own: bool


@dataclass(frozen=True, slots=True)
class Reasons:
    """What is known of a defect that unit tests do not notice.

    Attributes:
        nothing: Why it changes nothing; empty if it does.
        process: A test with processes that notices it; empty if none is known.
    """

    nothing: str = ""
    process: str = ""


@dataclass(frozen=True, slots=True)
class Tried:
    """A defect and its end.

    Attributes:
        mutant: The defect.
        num_tests: How many unit tests reach it and were there to notice it.
        notice: What they noticed.
        reasons: What is known of it besides.
    """

    mutant: Mutant
    num_tests: int
    notice: Notice
    reasons: Reasons = Reasons()

    @property
    def is_killed(self) -> bool:
        """Whether a unit test failed."""
        return self.notice.outcome in (Outcome.KILLED, Outcome.HUNG)

    @property
    def is_killed_by_own(self) -> bool:
        """Whether one of its own package did."""
        return self.is_killed and self.notice.is_own

    @property
    def is_killed_by_any(self) -> bool:
        """Whether any test of the suite did."""
        return self.is_killed or bool(self.reasons.process)

    @property
    def is_survivor(self) -> bool:
        """Whether it changes behaviour and no test failed."""
        return self.is_counted and not self.is_killed_by_any

    @property
    def is_counted(self) -> bool:
        """Whether it is a program that behaves otherwise than the original."""
        is_none = self.reasons.nothing or self.notice.outcome is Outcome.INVALID
        return self.is_killed or not is_none

    def __str__(self) -> str:
        if self.is_killed:
            return f"{self.notice.outcome} by {'its package' if self.notice.is_own else 'others'}"
        if self.reasons.nothing:
            return f"changes nothing: {self.reasons.nothing}"
        if self.reasons.process:
            return f"killed by `{self.reasons.process}`"
        return str(self.notice.outcome)


class Noticed:
    """Defects that were noticed, kept in a directory from one call to the next."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "noticed"
        self._folder.mkdir(parents=True, exist_ok=True)

    def find(self, mutant: Mutant) -> Notice | None:
        """Return what was noticed of a defect before."""
        path = self._path(mutant)
        return Notice(**json.loads(path.read_text())) if path.exists() else None

    def keep(self, mutant: Mutant, notice: Notice) -> None:
        """Keep it, unless new tests may still notice it, or be the first of its own package."""
        if notice.is_own:
            told = {"outcome": notice.outcome, "is_own": notice.is_own}
            self._path(mutant).write_text(json.dumps(told))

    def _path(self, mutant: Mutant) -> Path:
        return self._folder / f"{sha256(f'{mutant}{mutant.source()}'.encode()).hexdigest()}.json"


def reasons(mutant: Mutant) -> Reasons:
    """Return what is known of a defect, by its path, the text of its line and the change."""
    key = mutant.path, mutant.text, f"{mutant.old} {mutant.new}".strip()
    return Reasons(
        _known("changing_nothing.json", "reason").get(key, ""),
        _known("noticed_by_processes.json", "test").get(key, ""),
    )


@cache
def _known(name: str, what: str) -> Mapping[tuple[str, str, str], str]:
    rows = json.loads(Path(__file__).with_name(name).read_text())
    return {(row["path"], row["line"], row["change"]): row[what] for row in rows}


def write(tried: Sequence[Tried], *, seed: int, path: Path) -> None:
    """Write the table, and keep the figures of this sample below those of earlier ones."""
    commit = subprocess.check_output(
        ["git", "rev-parse", "--short=8", "HEAD"], cwd=ROOT, text=True
    ).strip()
    earlier = json.loads(_SAMPLES.read_text())
    samples = [*earlier, {"commit": commit, "seed": seed, **counts(tried)}]
    _SAMPLES.write_text(json.dumps(samples, indent=1) + "\n")
    path.write_text(table(tried, seed=seed, samples=samples))


def counts(tried: Sequence[Tried]) -> dict[str, int]:
    """Return the figures of a sample."""
    counted = [each for each in tried if each.is_counted]
    deciding = [each for each in counted if package_of(each.mutant.path) in _DECIDING]
    return {
        "drawn": len(tried),
        "defects": len(counted),
        "own": sum(each.is_killed_by_own for each in counted),
        "unit": sum(each.is_killed for each in counted),
        "all": sum(each.is_killed_by_any for each in counted),
        "deciding": len(deciding),
        "deciding_own": sum(each.is_killed_by_own for each in deciding),
    }


def table(tried: Sequence[Tried], *, seed: int, samples: Sequence[Mapping[str, object]]) -> str:
    """Return the Markdown of some trials, and of the figures of all samples."""
    return "\n".join(_lines(tried, seed, samples)) + "\n"


def _lines(
    tried: Sequence[Tried], seed: int, samples: Sequence[Mapping[str, object]]
) -> Iterator[str]:
    counted = [each for each in tried if each.is_counted]
    killed = sum(each.is_killed for each in counted)
    yield "# What the tests notice"
    yield ""
    yield f"Written by `python -m tests.worth --mutants {len(tried)} --seed {seed}`."
    yield f"Of {len(tried)} one-token defects {len(counted)} change behaviour; unit tests"
    yield f"notice {killed}. A package's own unit tests come first; in the packages that decide"
    yield "purely they are to notice 80 %, and the whole suite 95 % of all."
    yield ""
    yield from _rows_of_samples(samples)
    yield ""
    yield "| package | defects | its unit tests | any unit test | any test |"
    yield "|---|---|---|---|---|"
    packages: dict[str, list[Tried]] = defaultdict(list)
    for each in tried:
        packages[package_of(each.mutant.path)].append(each)
    for package, found in packages.items():
        of = counts(found)
        yield f"| `{package}` | {of['defects']} | {of['own']} | {of['unit']} | {of['all']} |"
    yield ""
    yield "| defect | change | unit tests | outcome |"
    yield "|---|---|---|---|"
    for each in sorted(tried, key=lambda each: (each.is_killed, each.mutant.path)):
        mutant = each.mutant
        change = f"`{mutant.old}` `{mutant.new or 'nothing'}`".replace("|", "\\|")
        yield f"| `{mutant}` | {change} | {each.num_tests} | {each} |"


def _rows_of_samples(samples: Sequence[Mapping[str, object]]) -> Iterator[str]:
    yield "| at | seed | drawn | defects | its unit tests | any unit test | any test | deciding |"
    yield "|---|---|---|---|---|---|---|---|"
    for of in samples:
        deciding = f"{of['deciding_own']} of {of['deciding']}"
        cells = [f"`{of['commit']}`", *(of[k] for k in ("seed", "drawn", "defects"))]
        cells += [*(of[k] for k in ("own", "unit", "all")), deciding]
        yield f"| {' | '.join(map(str, cells))} |"
