"""A line for each attack; exits 1 if one succeeded."""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.attack.compose import NAME, attack_compose
from tests.attack.modes import MODES, Outcome, attack
from tests.attack.table import run_rows


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__)
    names = [*(mode.name for mode in MODES), NAME]
    parser.add_argument("--mode", action="append", choices=names, help="only these modes")
    parser.add_argument(
        "--no-tests", action="store_true", help="only attacks on running appliances"
    )
    given = parser.parse_args()
    num_succeeded = num_tried = 0
    for outcome in _outcomes(given.mode or names):
        num_tried += 1
        num_succeeded += bool(outcome.how)
        _tell(f"{outcome.mode}: {outcome.who}: {outcome.attack}", outcome.how)
    if not given.no_tests:
        for row in run_rows():
            num_tried += 1
            num_succeeded += bool(row.how)
            _tell(row.attack, row.how, is_skipped=row.is_skipped)
    print(f"{num_tried} attacks, {num_succeeded} succeeded")
    return 1 if num_succeeded else 0


def _outcomes(names: Sequence[str]) -> Iterator[Outcome]:
    for mode in MODES:
        if mode.name in names:
            with tempfile.TemporaryDirectory(prefix="wsc-attack-") as directory:
                yield from attack(mode, Path(directory))
    if NAME in names:
        yield from attack_compose()


def _tell(attack_: str, how: str, *, is_skipped: bool = False) -> None:
    what = "SUCCEEDED" if how else "not tried" if is_skipped else "refused  "
    print(f"{what} {attack_}{': ' + how if how else ''}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
