"""How often tests start what is slow to start, and how long they wait for it."""

import contextlib
import os
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

VARIABLE = "WSC_TEST_STARTS"
"""Names the file of a test run in which each start is a line: its kind, a tab, its seconds."""


@contextlib.contextmanager
def counted(kind: str) -> Iterator[None]:
    """Count a start of some kind, which lasts as long as the block; outside of a run, nothing."""
    begun = time.monotonic()
    yield
    if path := os.environ.get(VARIABLE):
        with Path(path).open("a") as file:
            file.write(f"{kind}\t{time.monotonic() - begun:.3f}\n")


def read(path: Path) -> dict[str, tuple[int, float]]:
    """Return how many starts of each kind there were, and their seconds together."""
    found: dict[str, list[float]] = defaultdict(list)
    for line in path.read_text().splitlines() if path.exists() else ():
        kind, _, seconds = line.partition("\t")
        found[kind].append(float(seconds))
    return {kind: (len(each), round(sum(each), 1)) for kind, each in sorted(found.items())}
