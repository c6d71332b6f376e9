"""A line for each attack; exits 1 if one succeeded."""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.attack.modes import MODES, attack
from tests.attack.table import run_rows


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__)
    names = [mode.name for mode in MODES]
    parser.add_argument("--mode", action="append", choices=names, help="only these modes")
    parser.add_argument(
        "--no-tests", action="store_true", help="only attacks on running appliances"
    )
    given = parser.parse_args()
    modes = [mode for mode in MODES if mode.name in (given.mode or names)]
    num_succeeded = num_tried = 0
    for mode in modes:
        with tempfile.TemporaryDirectory(prefix="wsc-attack-") as directory:
            for outcome in attack(mode, Path(directory)):
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


def _tell(attack_: str, how: str, *, is_skipped: bool = False) -> None:
    what = "SUCCEEDED" if how else "not tried" if is_skipped else "refused  "
    print(f"{what} {attack_}{': ' + how if how else ''}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
