"""The CSL compiler and the simulated fabric against their bars: speed, memory, published cycles.

    python benchmarks/csl.py [--small]

Prints one line for each bar, `name value bar ok|MISSED`, and exits 1 if one is missed. Clock
cycles are simulated. Seconds are those of this machine's processor, so that what runs beside does
not count, but for the threads' bar, which compares the clock on the wall: there the fastest of
several rounds counts, the one that was disturbed least. All but that bar runs on one core.
`--small` is a trial: fewer rounds and PEs, whose speed means nothing.
Programs lie in `benchmarks/csl_programs`.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from appliance.csl.compiler import compile_program
from appliance.csl.options import CompileOptions
from appliance.csl.program import Grid, Program
from appliance.fabric.commands import CopyOut, Launch, Region
from appliance.fabric.host_interface import Simulator
from appliance.fabric.options import Counters, SimulatorOptions
from benchmarks.fabric_cycles.measured import report
from benchmarks.fabric_cycles.rows import Row

PROGRAMS = Path(__file__).parent / "csl_programs"
REDUCE_POINTS = {2: 10055, 4: 9421, 8: 9117, 16: 8989, 32: 8973}
REDUCE_POINTS |= {64: 9061, 128: 9297, 256: 9800, 512: 7218}
"""Group size and cycles of a sum over 512 PEs of 4,096 words, official simulator (SDK 0.6)."""
THREAD_ROUNDS = 9
"""Runs with one thread and with two, in turn; the fastest of each are compared."""
VENDOR_RATE = 0.27e6
"""PE-cycles a second of the official simulator, best of 146 published runs, five threads."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One figure and what it must reach."""

    name: str
    value: float
    bar: float
    at_least: bool
    unit: str = ""

    @property
    def is_met(self) -> bool:
        """Whether it does."""
        return self.value >= self.bar if self.at_least else self.value <= self.bar

    def __str__(self) -> str:
        sign = ">=" if self.at_least else "<="
        verdict = "ok" if self.is_met else "MISSED"
        return f"{self.name} {self.value:.4g} {sign} {self.bar:.4g} {self.unit} {verdict}"


class Files:
    """Reads sources from a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def read(self, path: str) -> str | None:
        """Return the text of a file, None if it is not there."""
        try:
            return (self._directory / path).read_text()
        except OSError:
            return None


def of_row(row: Row) -> Program:
    """Return the program of a published cycle count."""
    return compiled(row.program, architecture=row.architecture, **row.parameters)


def compiled(name: str, *, architecture: str = "wse2", **parameters: int) -> Program:
    """Return a program of `csl_programs`."""
    width = parameters.get("width", parameters.get("num_pes", 1))
    height = parameters.get("height", 1)
    options = CompileOptions(
        architecture=architecture,
        fabric_dims=(width + 7, height + 2),
        fabric_offsets=(4, 1),
        parameters=tuple(parameters.items()),
        memcpy=name != "wafer",
        channels=1,
    )
    result = compile_program("layout.csl", options, Files(PROGRAMS / name))
    if result.program is None:
        sys.exit(result.render())
    return result.program


def words(clock: np.ndarray) -> int:
    """Return the number that three 16-bit words make."""
    return int(clock[0]) | int(clock[1]) << 16 | int(clock[2]) << 32


def scalar_bars(directory: str, is_small: bool) -> Iterator[Bar]:
    """One PE: scalar loops and a vector operation."""
    options = SimulatorOptions(machine_code_directory=directory)
    simulator = Simulator(compiled("loops"), options=options)
    region, rounds = Region(0, 0, 1, 1), 200 if is_small else 20_000
    simulator.submit(Launch("dot", (rounds,)))
    started = time.process_time()
    simulator.wait(simulator.submit(CopyOut("result", region, 1)))
    seconds = time.process_time() - started
    yield Bar("scalar loops", 2 * 1000 * rounds / seconds / 1e6, 50, True, "million operations/s")
    simulator.submit(Launch("vectors"))
    clock = simulator.wait(simulator.submit(CopyOut("clock", region, 6, 16)))
    assert clock is not None
    cycles = words(clock[0, 0, 3:]) - words(clock[0, 0, :3])
    yield Bar("vector of 3,000 f32 against 3,006 cycles", abs(cycles / 3006 - 1), 0.03, False)


def reduce_run(group: int, directory: str) -> tuple[int, float, int]:
    """Return cycles of the sum, seconds that its simulation took, and PE-cycles."""
    num_pes, length = 512, 4096
    program = compiled("reduce", num_pes=num_pes, group=group, length=length)
    simulator = Simulator(program, options=SimulatorOptions(machine_code_directory=directory))
    first = Region(0, 0, 1, 1)
    started = time.process_time()
    simulator.drain()
    seconds = time.process_time() - started
    pe_cycles = simulator.counters().pe_cycles
    clock = simulator.wait(simulator.submit(CopyOut("clock", first, 3, 16)))
    result = simulator.wait(simulator.submit(CopyOut("vector", first, length)))
    assert clock is not None
    assert result is not None
    assert (result.view(np.float32) == num_pes).all()
    return words(clock[0, 0]), seconds, pe_cycles


def reduce_bars(directory: str, is_small: bool) -> Iterator[Bar]:
    """512 PEs: published cycles, and how fast they are simulated."""
    points = {512: REDUCE_POINTS[512]} if is_small else REDUCE_POINTS
    for group, published in points.items():
        num_runs = 3 if group == 512 and not is_small else 1
        runs = [reduce_run(group, directory) for _ in range(num_runs)]
        cycles, seconds, pe_cycles = min(runs, key=lambda run: run[1])
        name = f"sum over 512 PEs in groups of {group}: {cycles} against {published} cycles"
        yield Bar(name, abs(cycles / published - 1), 0.03, False)
        if group == 512:
            yield Bar("chain of 512 PEs", seconds, 3, False, "s")
            rate = pe_cycles / seconds
            yield Bar("steady streams", rate / 1e6, 10, True, "million PE-cycles/s")
            yield Bar("steady streams over the vendor's", rate / VENDOR_RATE, 10, True, "times")


def rows_run(num_threads: int, directory: str) -> tuple[float, bytes, Counters]:
    """Sum over each of 100 rows; return seconds on the wall's clock and what came."""
    side, length = 100, 512
    row = compiled("reduce", num_pes=side, group=side, length=length)
    grid = Grid(side, side, row.grid.code * side, row.grid.routing * side)
    options = SimulatorOptions(machine_code_directory=directory, num_threads=num_threads)
    simulator = Simulator(replace(row, grid=grid), options=options)
    first = Region(0, 0, 1, side)
    started = time.perf_counter()
    simulator.drain()
    seconds = time.perf_counter() - started
    clock = simulator.wait(simulator.submit(CopyOut("clock", first, 3, 16)))
    assert clock is not None
    return seconds, clock.tobytes(), simulator.counters()


def thread_bars(directory: str, is_small: bool) -> Iterator[Bar]:
    """10,000 active PEs on one thread and on two; one processor has nothing to compare."""
    if len(os.sched_getaffinity(0)) < 2:
        return
    num_rounds = 1 if is_small else THREAD_ROUNDS
    runs = [[rows_run(threads, directory) for threads in (1, 2)] for _ in range(num_rounds)]
    one, two = (min(pair[at][0] for pair in runs) for at in (0, 1))
    rate = runs[0][0][2].pe_cycles / one / 1e6
    yield Bar("10,000 active PEs, one thread", rate, 2, True, "million PE-cycles/s")
    yield Bar("two threads over one, 10,000 active PEs", one / two, 1.6, True, "times")
    same = all(run[1:] == runs[0][0][1:] for pair in runs for run in pair)
    yield Bar("runs of them that are the same, bit for bit", float(same), 1, True)


def compiler_bars(directory: str, is_small: bool) -> Iterator[Bar]:
    """The compiler: a small program with Python's start, and a whole wafer."""
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "-m", "appliance.sdk.cslc", "layout.csl", "--fabric-dims=8,3"]
        command += ["--fabric-offsets=4,1", "--memcpy", "--channels=1", "-o", f"{out}/out"]
        times = []
        for _ in range(1 if is_small else 3):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(command, check=True, cwd=PROGRAMS / "loops", capture_output=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    yield Bar("cslc of a small program", min(times), 1, False, "s")
    started = time.process_time()
    width, height = (75, 99) if is_small else (750, 994)
    program = compiled("wafer", width=width, height=height)
    seconds = time.process_time() - started
    yield Bar(f"compiling {width} x {height} PEs of 20 classes", seconds, 60, False, "s")
    compiling = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield Bar("memory for that", compiling / 1024**2, 4, False, "GB")
    simulator = Simulator(program, options=SimulatorOptions(machine_code_directory=directory))
    simulator.drain()
    simulating = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield Bar("more for simulating it idle", (simulating - compiling) / 1024**2, 1, False, "GB")


def main() -> int:
    """Print all bars; return 1 if one is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--small", action="store_true", help="a trial of each bar")
    is_small = parser.parse_args().small
    missed = 0
    with tempfile.TemporaryDirectory() as directory:
        for bars in (scalar_bars, reduce_bars, compiler_bars, thread_bars):
            for bar in bars(directory, is_small):
                print(bar, flush=True)
                missed += not bar.is_met
        for line in report(of_row, directory):
            print(line, flush=True)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
