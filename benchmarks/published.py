"""Published numbers of simulated time beside ours: cycles of the fabric, and rates of training.

    python -m benchmarks.published [--cycles | --rates]

Table A has a line for each published cycle count, says whether a constant of ours was fitted to it,
and sums up both parts; what has no program of ours stands at its end. Table B has the logged rates
with the error of a calibration that saw no log of that model, and that of the shipped one.
"""

import argparse
import tempfile
from collections.abc import Iterator
from statistics import median

from appliance.wafer.planner.trust import WORST_ERRORS
from appliance.wafer.timing.calibration import DEFAULT_CALIBRATION
from benchmarks.csl import of_row
from benchmarks.fabric_cycles.measured import report
from benchmarks.fabric_cycles.rows import NOT_REPRODUCED
from benchmarks.wafer_model.fitting import left_out_errors, relative_error
from benchmarks.wafer_model.logs import LOGS


def cycles() -> Iterator[str]:
    """Yield the lines of table A."""
    with tempfile.TemporaryDirectory() as directory:
        yield from report(of_row, directory)
    for row in NOT_REPRODUCED:
        yield f"{row.name}: {row.cycles:g} cycles, no program of ours"


def rates() -> Iterator[str]:
    """Yield the lines of table B."""
    left_out = left_out_errors()
    for row in LOGS:
        error, fitted = left_out[row.name], relative_error(row, DEFAULT_CALIBRATION)
        low, high = (1 / (1 + end) for end in reversed(WORST_ERRORS[row.machine.wafer]))
        yield (
            f"{row.name}: {row.samples_per_second * (1 + error):.4g} against "
            f"{row.samples_per_second:g} samples/s, {error:+.1%} with its model left out, "
            f"{fitted:+.1%} fitted; interval x {low:.2f} to x {high:.2f}"
        )
    worst = max(map(abs, left_out.values()))
    yield f"models left out: median {median(map(abs, left_out.values())):.1%}, worst {worst:.1%}"


def main() -> None:
    """Print both tables, or one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cycles", action="store_true", help="table A alone")
    parser.add_argument("--rates", action="store_true", help="table B alone")
    wanted = parser.parse_args()
    if wanted.cycles or not wanted.rates:
        print("A. Cycles of the fabric", *cycles(), sep="\n", flush=True)
    if wanted.rates or not wanted.cycles:
        print("B. Rates of training", *rates(), sep="\n", flush=True)


if __name__ == "__main__":
    main()
