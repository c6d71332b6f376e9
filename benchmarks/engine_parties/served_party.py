"""One of our parties, of whatever checkout this process imports, driven over its standard input.

    PYTHONPATH=CHECKOUT python served_party.py SHAPE GROUP PARTY DIRECTORY KERNELS

Names are those of that checkout's `benchmarks.engine`; the party's files go to DIRECTORY, and what
is measured of kernels to KERNELS. It prints a line of JSON with the process ids of its pods once it
is up, and then for each line with a number of steps one with the last step's loss.
"""

import json
import sys
from pathlib import Path

del sys.path[0]  # this folder; everything is imported from the checkout

from appliance.coordinator.run.kernel_selection import KernelTable  # noqa: E402
from benchmarks.engine import GROUPS, SHAPES, Table  # noqa: E402


def main() -> None:
    """Serve until standard input ends."""
    shape, group, wanted, directory, kernels = sys.argv[1:]
    table = Table(shape, SHAPES[shape], Path(directory), KernelTable(Path(kernels)))
    (party,) = (party for party in GROUPS[group](table) if party.name == wanted)
    try:
        party.start()
        _answer(pods=[process.pid for process in party.processes()])
        for line in sys.stdin:
            _answer(loss=party.run(int(line)))
    finally:
        party.close()


def _answer(**values: object) -> None:
    print(json.dumps(values), flush=True)


if __name__ == "__main__":
    main()
