"""`appliance bench`: by which library systems compute on this machine, and how fast."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

import typer

from appliance.cli.errors import clear_errors
from appliance.cli.options.data_dir import DataDir
from appliance.coordinator.compile.artifacts import KERNEL_TABLES
from appliance.coordinator.run.kernel_selection import KernelTable
from appliance.management.options.combined_settings import COMPILE_CACHE
from appliance.numerics.choice_timing import has_choice, machine, measure
from appliance.numerics.choices import Implementation, Operation, Problem
from appliance.settings import read_settings

_MAX_SIZE, _MAX_THREADS = 1 << 16, 1 << 10
_GIGA = 1e9
_UNITS = "GFLOP/s; * the library that is used"


def bench(
    *,
    rows: Annotated[
        int, typer.Option(min=1, max=_MAX_SIZE, help="Samples times tokens of a system.")
    ] = 256,
    width: Annotated[
        int, typer.Option(min=16, max=_MAX_SIZE, help="Of a transformer's layers.")
    ] = 512,
    threads: Annotated[
        int, typer.Option(min=1, max=_MAX_THREADS, help="Threads of an operation.")
    ] = 1,
    kept: Annotated[
        bool, typer.Option("--kept", help="Show what jobs of the appliance have measured instead.")
    ] = False,
    data_dir: DataDir = None,
) -> None:
    """Time the libraries that systems can compute by, on a transformer's layer.

    Nothing is kept of it: a job's own sizes are timed when a system first computes with them.
    """
    with clear_errors():
        directory = data_dir or read_settings().data_dir
        lines = _kept(directory) if kept else _measured(rows, width, threads)
        for line in lines:
            typer.echo(line)


def _measured(rows: int, width: int, threads: int) -> Iterator[str]:
    yield from _head(machine(), threads)
    for problem in _layer(rows, width):
        if not has_choice(problem):
            yield f"{problem!s:38}  too small for a choice"
            continue
        timing = measure(problem, num_threads=threads)
        speeds = _speeds(timing.seconds, timing.num_operations)
        yield _row(problem, speeds, timing.chosen, timing.by_rule)


def _kept(data_dir: Path) -> Iterator[str]:
    shown: tuple[str, int] | None = None
    for entry in KernelTable(data_dir / COMPILE_CACHE / KERNEL_TABLES).measured():
        if shown != (entry.machine, entry.num_threads):
            if shown is not None:
                yield ""
            shown = entry.machine, entry.num_threads
            yield from _head(*shown)
        speeds = _speeds(entry.seconds, entry.num_operations)
        yield _row(entry.problem, speeds, entry.chosen, entry.by_rule)
    if shown is None:
        yield f"No job of the appliance in {data_dir} has measured anything yet."


def _head(described: str, threads: int) -> Iterator[str]:
    yield f"{described}; {threads} {'thread' if threads == 1 else 'threads'}"
    yield _UNITS
    yield _line("", {each: each.value for each in Implementation}, "by rule")


def _speeds(
    seconds: Mapping[Implementation, float], num_operations: int
) -> Mapping[Implementation, float]:
    return {each: num_operations / spent / _GIGA for each, spent in seconds.items()}


def _row(
    problem: Problem,
    speeds: Mapping[Implementation, float],
    chosen: Implementation,
    by_rule: Implementation,
) -> str:
    cells = {each: f"{speed:.1f}{'*' if each is chosen else ' '}" for each, speed in speeds.items()}
    return _line(str(problem), cells, by_rule.value)


def _line(first: str, cells: Mapping[Implementation, str], last: str) -> str:
    middle = "".join(f"{cells.get(each, '-'):>11}" for each in Implementation)
    return f"{first:38}{middle}  {last}"


def _layer(rows: int, width: int) -> Iterator[Problem]:
    """Yield what a transformer's layer poses, forward and backward."""
    for inner, columns in ((width, 3 * width), (width, width), (width, 4 * width)):
        yield Problem(Operation.PRODUCT_NT, (rows, inner, columns))
        yield Problem(Operation.PRODUCT_NN, (rows, columns, inner))
        yield Problem(Operation.PRODUCT_TN, (columns, rows, inner))
    yield Problem(Operation.PRODUCT_NT, (rows, 4 * width, width))
    yield Problem(Operation.PRODUCT_NN, (rows, width, 4 * width))
    yield Problem(Operation.PRODUCT_TN, (width, rows, 4 * width))
