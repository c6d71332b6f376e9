"""Draw defects, see which unit tests notice them, and write the table.

    python -m tests.worth [--mutants 104] [--seed 1] [--package appliance/csl ...] [--keep DIR]
    python -m tests.worth --at appliance/core/ids.py:12 ...

Each defect is one token of a function (`mutants.py`). The unit tests run once to record which of
them reaches which line (`reach.py`); then each defect meets those that reach it, first the tests of
its own package, then the others, of each the cheapest first, until one fails (`trial.py`). The
table is written anew, with a line for each sample that was tried before; defects that change
nothing are named, with the reason, in `changing_nothing.json`, and those that tests with processes
notice, with the test, in `noticed_by_processes.json`. With `--at` the defects of some lines are
made and the table is left as it is.

With `--keep` what was recorded and noticed is not recorded and tried again. New tests are added by
`--add`, and meet what nothing has noticed so far.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.support.waiting import patience
from tests.worth import mutants, reach, trial
from tests.worth.mutants import PACKAGES, Mutant, own_tests
from tests.worth.reach import Reach
from tests.worth.table import TABLE, Notice, Noticed, Tried, reasons, write

_LIMIT_SECONDS = 60.0
"""Of the tests that one defect meets, as long as they took when they were recorded."""
_PATIENCE = 300.0
"""Seconds after which tests hang, where nothing else runs."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; return the exit code."""
    options = _options(arguments)
    drawn = [mutant for place in options.at for mutant in mutants.at(place)]
    if not drawn:
        drawn = mutants.sample(options.package, options.mutants, options.seed)
    with tempfile.TemporaryDirectory(prefix="wsc-worth-") as made:
        folder = Path(options.keep or made)
        files = {mutant.path for mutant in drawn}
        if not reach.is_recorded(folder):
            reach.record(folder, options.tests, files)
        if options.add:
            reach.record(folder, options.add, files)
        tried = _try(drawn, reach.read(folder), Noticed(folder))
    if not options.at:
        write(tried, seed=options.seed, path=options.table)
    return int(any(each.is_survivor for each in tried))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--mutants", type=int, default=8 * len(PACKAGES))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--package", nargs="+", choices=PACKAGES, default=PACKAGES)
    parser.add_argument("--tests", nargs="+", default=["tests/unit"], help="which may kill")
    parser.add_argument("--at", nargs="+", default=[], metavar="PATH:LINE")
    parser.add_argument("--keep", help="directory of what was recorded and noticed")
    parser.add_argument("--add", nargs="+", default=[], help="tests to record beside what is kept")
    parser.add_argument("--table", type=Path, default=TABLE, help="where the table is written")
    return parser.parse_args(arguments)


def _try(drawn: Sequence[Mutant], reached: Reach, noticed: Noticed) -> list[Tried]:
    trial.prepare()
    tried: list[Tried] = []
    checked: set[str] = set()
    for mutant in drawn:
        tests = _tests_of(mutant, reached)
        if any(tests) and (kind := Path(mutant.path).suffix) not in checked:
            checked.add(kind)
            trial.check(mutant, tests[0] or tests[1])
        notice = noticed.find(mutant) or _notice(mutant, tests, reached)
        noticed.keep(mutant, notice)
        each = Tried(mutant, sum(map(len, tests)), notice, reasons(mutant))
        print(f"{mutant} {mutant.old!r} {mutant.new!r} {each.num_tests} tests: {each}", flush=True)
        tried.append(each)
    return tried


def _notice(mutant: Mutant, tests: Sequence[Sequence[str]], reached: Reach) -> Notice:
    """Try a defect on its package's tests, and if they notice nothing on the others."""
    found = trial.Outcome.UNREACHED
    for is_own, some in zip((True, False), tests, strict=True):
        if not some:
            continue
        seconds = max(_PATIENCE, 5 * sum(reached.seconds[test] for test in some))
        found = trial.run(mutant, some, seconds=patience(seconds))
        if found is not trial.Outcome.SURVIVED:
            return Notice(outcome=found, is_own=is_own)
    return Notice(outcome=found, is_own=False)


def _tests_of(mutant: Mutant, reached: Reach) -> tuple[list[str], list[str]]:
    """Return the tests of a defect's package and the others that reach it."""
    own = own_tests(mutant.path)
    if not mutant.path.endswith(".py"):
        found = [test for test in reached.seconds if test.startswith(own)]
        return sorted(found, key=lambda test: reached.seconds[test]), []
    return (
        reached.cheapest_first(mutant.path, mutant.line, _LIMIT_SECONDS, is_of=own),
        reached.cheapest_first(mutant.path, mutant.line, _LIMIT_SECONDS, is_not_of=own),
    )


if __name__ == "__main__":
    sys.exit(main())
