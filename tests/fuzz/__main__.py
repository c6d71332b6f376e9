"""`python -m tests.fuzz [CASES [SEED]]`: prints a table, and exits 1 if anything broke."""

import sys
import time

from tests.fuzz.decoders import decoders
from tests.fuzz.runner import fuzz


def main() -> int:
    num_cases = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    began = time.monotonic()
    findings = fuzz(decoders(), num_cases, seed=seed)
    print(f"{'target':24}{'cases':>10}{'refused':>10}{'crashes':>10}")
    for name, count in findings.cases.items():
        crashes = sum(target == name for target, _ in findings.crashes)
        print(f"{name:24}{count:>10,}{findings.refused[name]:>10,}{crashes:>10,}")
    print(
        f"{findings.cases.total():,} cases with seed {seed} in {time.monotonic() - began:.0f} s, "
        f"{len(findings.crashes)} crashes"
    )
    for (name, where), text in findings.crashes.items():
        print(f"\n{name}: {where}\n{text}")
    return 1 if findings.crashes else 0


if __name__ == "__main__":
    raise SystemExit(main())
