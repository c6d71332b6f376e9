"""Traces of jobs in the Standard Workload Format.

Source: Chapin et al., Benchmarks and standards for the evaluation of parallel job schedulers, 1999
(the format: 18 numbers a line, -1 for unknown, header lines begin with a semicolon).
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

_NUM_FIELDS = 18


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceJob:
    """One job of a trace.

    Attributes:
        number: Its number; also the order of submission within a second.
        submit_seconds: When it is submitted.
        run_seconds: How long it runs.
        num_systems: Systems it needs.
        requested_seconds: Its time limit; None if it has none.
        user: Whose it is.
        group: The user's group.
        program: What it runs.
    """

    number: int
    submit_seconds: float
    run_seconds: float
    num_systems: int
    requested_seconds: float | None
    user: int
    group: int
    program: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Jobs in order of submission, and the cluster they were made for.

    Attributes:
        name: What to call it.
        num_systems: Systems of the cluster.
        jobs: The jobs.
    """

    name: str
    num_systems: int
    jobs: tuple[TraceJob, ...]


def read_swf(path: Path, *, num_systems: int | None = None, max_jobs: int | None = None) -> Trace:
    """Read a log in Standard Workload Format.

    Args:
        path: The log.
        num_systems: Size of the cluster to replay it on; sizes of jobs are scaled to it and rounded
            up. None takes the log's own number of nodes, else of processors.
        max_jobs: Stop after so many jobs; None reads all.

    Raises:
        ValueError: The log has a line that is not of the format, or says nowhere how large the
            machine is.
    """
    header: dict[str, str] = {}
    rows: list[list[float]] = []
    with path.open(encoding="latin-1") as lines:
        for number, line in enumerate(lines, start=1):
            if line.lstrip().startswith(";"):
                if found := re.match(r"\s*;\s*(\w+)\s*:\s*(\S+)", line):
                    header[found[1]] = found[2]
                continue
            fields = line.split()
            if not fields:
                continue
            if len(fields) != _NUM_FIELDS:
                raise ValueError(
                    f"{path}:{number} has {len(fields)} fields; the format has {_NUM_FIELDS}."
                )
            rows.append([float(field) for field in fields])
            if max_jobs is not None and len(rows) >= max_jobs:
                break
    size = int(header.get("MaxProcs", header.get("MaxNodes", 0)))
    if not size:
        size = int(max((max(row[4], row[7]) for row in rows), default=0))
    if size <= 0:
        raise ValueError(f"{path} says neither MaxProcs nor the size of any job.")
    wanted = num_systems or size
    jobs = [job for row in rows if (job := _job(row, wanted / size, wanted)) is not None]
    jobs.sort(key=lambda job: (job.submit_seconds, job.number))
    return Trace(name=path.stem, num_systems=wanted, jobs=tuple(jobs))


def _job(row: Sequence[float], scale: float, most: int) -> TraceJob | None:
    """Return the job of one line; None if it never ran."""
    number, submit, _, run, allocated = row[:5]
    requested_size, requested = row[7], row[8]
    size = allocated if allocated > 0 else requested_size
    if run <= 0 or size <= 0:
        return None
    limit = requested if requested > 0 else None
    return TraceJob(
        number=int(number),
        submit_seconds=submit,
        run_seconds=run if limit is None else min(run, limit),
        num_systems=min(most, max(1, int(np.ceil(size * scale - 1e-9)))),
        requested_seconds=limit,
        user=int(row[11]),
        group=int(row[12]),
        program=int(row[13]),
    )


def write_swf(trace: Trace, path: Path) -> None:
    """Write a trace in Standard Workload Format; what is unknown is -1."""
    path.write_text("\n".join([f"; MaxProcs: {trace.num_systems}", *_lines(trace.jobs)]) + "\n")


def _lines(jobs: Iterable[TraceJob]) -> Iterable[str]:
    for job in jobs:
        limit = -1 if job.requested_seconds is None else job.requested_seconds
        fields = [job.number, job.submit_seconds, -1, job.run_seconds, job.num_systems, -1, -1]
        fields += [job.num_systems, limit, -1, 1, job.user, job.group, job.program, -1, -1, -1, -1]
        yield " ".join(f"{field:.15g}" for field in fields)
