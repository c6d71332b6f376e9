"""By which library the systems of a job compute what several libraries can compute.

Each problem is timed once on a kind of machine, by the first system of the first job that poses it,
and what was chosen stays in a file. So all systems of a job compute alike, and a job that runs
again on the same kind of machine computes the same bits. On another kind of machine it is timed
anew (docs/decisions/0138-kernels-are-chosen-by-measurement.md).
"""

import contextlib
import fcntl
import hashlib
import json
import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from google.protobuf.message import Message

from appliance.core.errors import InternalError, UserError
from appliance.files.kept_files import replace_file
from appliance.numerics.choices import Implementation, Problem
from protos.wsc.v1 import pods_pb2

logger = logging.getLogger(__name__)

_DIGITS = 16

Reply = TypeVar("Reply", bound=Message)

Timings = Mapping[str, pods_pb2.ProblemTiming]
"""What was measured, by problem."""


_Entries = dict[str, dict[str, Any]]
"""What was measured of each problem: the library that was chosen, and what led to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What was measured of one problem.

    Attributes:
        machine: Processor and versions of the libraries.
        num_threads: Threads of an operation.
        problem: What was computed.
        chosen: The library that systems use.
        by_rule: The library that the rule names.
        seconds: The least time of each library; of a large problem that of a part.
        num_operations: What was computed in that time, as `Problem.num_operations` counts.
    """

    machine: str
    num_threads: int
    problem: Problem
    chosen: Implementation
    by_rule: Implementation
    seconds: Mapping[Implementation, float]
    num_operations: int


class KernelTable:
    """What was measured on each kind of machine, in files.

    An entry never changes once it is there. Several coordinators may measure at the same time; the
    first one to write an entry decides.

    Args:
        directory: Where they are; made when it is first needed.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def read(self, machine: str, num_threads: int) -> Mapping[str, Implementation]:
        """Return the library of each problem that was measured with so many threads.

        Args:
            machine: Processor and versions of the libraries.
            num_threads: Threads of an operation.

        Raises:
            OSError: The file cannot be read.
            UserError: It is not one that this has written.
        """
        return _chosen(self._path(machine), self._read(machine).get(str(num_threads), {}))

    def add(self, machine: str, num_threads: int, timings: Timings) -> Mapping[str, Implementation]:
        """Write what was measured, and return what counts now: entries that are there stay.

        Raises:
            OSError: The file cannot be written.
            UserError: It is not one that this has written.
        """
        self._directory.mkdir(parents=True, exist_ok=True)
        path = self._path(machine)
        with _locked(path.with_suffix(".lock")):
            tables = self._read(machine)
            table = tables.setdefault(str(num_threads), {})
            for problem, timing in timings.items():
                entry = {
                    "chosen": timing.chosen,
                    "by_rule": timing.by_rule,
                    "seconds": dict(timing.seconds),
                    "num_operations": timing.num_operations,
                }
                table.setdefault(problem, entry)
            text = json.dumps({"machine": machine, "by_threads": tables}, indent=1, sort_keys=True)
            replace_file(path, text.encode(), mode=0o666)
        return _chosen(path, table)

    def measured(self) -> Iterator["Measured"]:
        """Yield everything that was measured, by machine and threads.

        Raises:
            UserError: A file is not one that this has written.
        """
        for path in sorted(self._directory.glob("*.json")):
            try:
                whole = json.loads(path.read_text())
                for threads, table in sorted(whole["by_threads"].items()):
                    for problem, entry in sorted(table.items()):
                        yield Measured(
                            machine=whole["machine"],
                            num_threads=int(threads),
                            problem=Problem.parse(problem),
                            chosen=Implementation(entry["chosen"]),
                            by_rule=Implementation(entry["by_rule"]),
                            seconds={Implementation(n): s for n, s in entry["seconds"].items()},
                            num_operations=entry["num_operations"],
                        )
            except (ValueError, KeyError, TypeError, InternalError) as error:
                raise _unreadable(path, error) from error

    def _read(self, machine: str) -> dict[str, _Entries]:
        path = self._path(machine)
        try:
            tables: dict[str, _Entries] = json.loads(path.read_text())["by_threads"]
            if not all(isinstance(each, dict) for each in (tables, *tables.values())):
                raise TypeError("by_threads holds no tables")
        except FileNotFoundError:
            return {}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _unreadable(path, error) from error
        return tables

    def _path(self, machine: str) -> Path:
        digest = hashlib.sha256(machine.encode()).hexdigest()[:_DIGITS]
        return self._directory / f"{digest}.json"


class Ask(Protocol):
    """Calls one method of `wsc.v1.Kernels` of one system and returns its reply."""

    def __call__(
        self, system: int, method: str, request: Message, reply_type: type[Reply]
    ) -> Reply:
        """Raises `PodFailedError` if the system is gone."""
        ...


class KernelSelection:
    """Tells the systems of a job what to compute by.

    Args:
        num_systems: Systems of the job.
        ask: Reaches them.
        table: What was measured.
    """

    def __init__(self, num_systems: int, ask: Ask, table: KernelTable) -> None:
        self._systems, self._ask, self._table = range(num_systems), ask, table

    def apply(self, session: int) -> None:
        """Choose for a session that is loaded; times what nobody has timed.

        Raises:
            PodFailedError: A system is gone.
            UserError: The table is not readable.
        """
        request = pods_pb2.ListProblemsRequest(session=session)
        replies = [
            self._ask(system, "ListProblems", request, pods_pb2.ListProblemsReply)
            for system in self._systems
        ]
        problems = sorted({problem for reply in replies for problem in reply.problems})
        if not problems:
            return
        # All systems compute by what one of them measures, so they compute the same bits.
        first = next(system for system in self._systems if replies[system].problems)
        chosen = self._choose(first, replies[first], problems)
        use = pods_pb2.UseImplementationsRequest(
            session=session,
            implementations={problem: each.value for problem, each in chosen.items()},
        )
        for system in self._systems:
            self._ask(system, "UseImplementations", use, pods_pb2.UseImplementationsReply)

    def _choose(
        self, system: int, listed: pods_pb2.ListProblemsReply, problems: Iterable[str]
    ) -> Mapping[str, Implementation]:
        machine, num_threads = listed.machine, listed.num_threads
        try:
            table = self._table.read(machine, num_threads)
            missing = [problem for problem in problems if problem not in table]
            if missing:
                timings = self._measure(system, missing, num_threads)
                table = self._table.add(machine, num_threads, timings)
        except OSError as error:
            # What cannot be kept would be measured again, perhaps with another result.
            logger.warning(
                "Kernels are chosen by rule: measurements cannot be kept",
                extra={"reason": str(error)},
            )
            return {}
        return {problem: table[problem] for problem in problems}

    def _measure(self, system: int, problems: list[str], num_threads: int) -> Timings:
        request = pods_pb2.MeasureProblemsRequest(problems=problems, num_threads=num_threads)
        reply = self._ask(system, "MeasureProblems", request, pods_pb2.MeasureProblemsReply)
        timings = {timing.problem: timing for timing in reply.timings}
        logger.info(
            "Libraries timed",
            extra={
                "problems": len(timings),
                "other_than_rule": sum(each.chosen != each.by_rule for each in timings.values()),
            },
        )
        return timings


def _chosen(path: Path, entries: _Entries) -> Mapping[str, Implementation]:
    try:
        return {problem: Implementation(entry["chosen"]) for problem, entry in entries.items()}
    except (ValueError, KeyError, TypeError) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> UserError:
    return UserError(
        f"{path} does not hold measurements of kernels: {error!r}.",
        hint="Remove the file; the next job measures again.",
    )


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock among processes, of other users of our group too; it ends with the process."""
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o660)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
