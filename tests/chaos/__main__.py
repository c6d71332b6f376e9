"""`python -m tests.chaos [--faults N] [--seed N]`: hurt a whole appliance, and count."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos import bench


def main():
    """Run from the command line; 1 if a promise was not kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=2026)
    options = parser.parse_args()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="wsc-chaos-") as directory:
        findings = bench.run_all(Path(directory), options.seed, options.faults)
    lines, promises_hold = bench.table(findings)
    print("\n".join(lines))
    print(f"Seed {options.seed}, {time.monotonic() - begun:.0f} s.")
    return 0 if promises_hold else 1


if __name__ == "__main__":
    sys.exit(main())
