"""Draw defects, see which unit tests notice them, and write the table.

    python -m tests.worth [--mutants 104] [--seed 1] [--package appliance/csl ...]
    python -m tests.worth --at appliance/core/ids.py:12 ...

Each defect is one token of a function (`mutants.py`). The unit tests run once to record which of
them reaches which line (`reach.py`); then each defect meets those that reach it, the cheapest
first, until one fails (`trial.py`). With `--at` the defects of some lines are made and the table is
left as it is. `table.md` is written anew; defects that change nothing are named, with the reason,
in `changing_nothing.json`.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.worth import mutants, reach, trial
from tests.worth.mutants import PACKAGES, Mutant
from tests.worth.reach import Reach
from tests.worth.table import TABLE, Tried, changing_nothing, table

_LIMIT_SECONDS = 60.0
"""Of the tests that one defect meets, as long as they took when they were recorded."""
_PATIENCE = 300.0
"""Seconds after which tests hang, on a busy machine."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; return the exit code."""
    options = _options(arguments)
    drawn = [mutant for place in options.at for mutant in mutants.at(place)]
    if not drawn:
        drawn = mutants.sample(options.package, options.mutants, options.seed)
    with tempfile.TemporaryDirectory(prefix="wsc-worth-") as made:
        folder = Path(options.keep or made)
        if not (folder / "seconds.json").exists():
            reach.record(folder, options.tests, {mutant.path for mutant in drawn})
        tried = _try(drawn, reach.read(folder))
    if not options.at:
        TABLE.write_text(table(tried, seed=options.seed))
    return int(any(each.is_survivor for each in tried))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--mutants", type=int, default=8 * len(PACKAGES))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--package", nargs="+", choices=PACKAGES, default=PACKAGES)
    parser.add_argument("--tests", nargs="+", default=["tests/unit"], help="which may kill")
    parser.add_argument("--at", nargs="+", default=[], metavar="PATH:LINE")
    parser.add_argument("--keep", help="directory of what was recorded, and is not recorded again")
    return parser.parse_args(arguments)


def _try(drawn: Sequence[Mutant], reached: Reach) -> list[Tried]:
    trial.prepare()
    harmless = changing_nothing()
    tried: list[Tried] = []
    checked: set[str] = set()
    for mutant in drawn:
        tests = _tests_of(mutant, reached)
        if tests and (kind := Path(mutant.path).suffix) not in checked:
            checked.add(kind)
            trial.check(mutant, tests)
        outcome = trial.run(mutant, tests, seconds=_PATIENCE)
        each = Tried(mutant, len(tests), outcome, harmless.get(_key(mutant), ""))
        print(f"{mutant} {mutant.old!r} {mutant.new!r} {len(tests)} tests: {outcome}", flush=True)
        tried.append(each)
    return tried


def _key(mutant: Mutant) -> tuple[str, str, str]:
    return mutant.path, mutant.text, f"{mutant.old} {mutant.new}".strip()


def _tests_of(mutant: Mutant, reached: Reach) -> list[str]:
    if mutant.path.endswith(".py"):
        return reached.cheapest_first(mutant.path, mutant.line, _LIMIT_SECONDS)
    of_fabric = [test for test in reached.seconds if test.startswith("tests/unit/fabric/")]
    return sorted(of_fabric, key=lambda test: reached.seconds[test])


if __name__ == "__main__":
    sys.exit(main())
