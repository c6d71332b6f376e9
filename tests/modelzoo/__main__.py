"""Run the table of Model Zoo configurations; see `make test-modelzoo`.

    python -m tests.modelzoo --modelzoo DIR --client VENV [--only PREFIX ...] [--runs cpu csx-1 ...]
        [--document FILE]

One line for each case: name, verdict, largest relative difference from the CPU backend, that of
`--precision exact`, seconds a step, losses. What has been run already is taken from the result
file, so that an interrupted table goes on; `--again` runs it anew. Each run is a process of its own
with a limit. Ends with 1 if a case fails.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.modelzoo import report
from tests.modelzoo.cases import CASES, Case
from tests.modelzoo.verdicts import RUNS, Verdict, judge, runs_of
from tests.support.appliance import running_appliance
from tests.support.client import client_path

HERE = Path(__file__).resolve().parent

SYSTEMS = {"csx-1": 1, "csx-2": 2, "exact": 1}


class Table:
    """The answers so far, in a file; those to a case that has changed since do not count."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.answers: dict[str, dict[str, Any]] = {}
        if path.exists():
            self.answers = json.loads(path.read_text())
        self._lock = threading.Lock()

    def put(self, case: Case, run: str, answer: dict[str, Any]) -> None:
        """Keep an answer."""
        with self._lock:
            self.answers.setdefault(case.name, {})[run] = {**answer, "digest": case.digest}
            new = self.path.with_suffix(".new")
            new.write_text(json.dumps(self.answers, indent=1, sort_keys=True))
            new.replace(self.path)

    def of(self, case: Case) -> dict[str, dict[str, Any]]:
        """Return the answers to a case as it is now, by run."""
        found = self.answers.get(case.name, {})
        return {run: each for run, each in found.items() if each.get("digest") == case.digest}

    def has(self, case: Case, run: str) -> bool:
        """Whether a run came to its end; others are tried again."""
        return self.of(case).get(run, {}).get("status") == "done"


class Server:
    """One process that has imported the Model Zoo and forks a run for each order."""

    def __init__(self, options: argparse.Namespace, log: Path) -> None:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        environment |= {
            "PATH": f"{client_path(options.client)}:{environment['PATH']}",
            "OMP_NUM_THREADS": "1",
            "CSCONFIG_PATH": "/nonexistent",
        }
        with log.open("w") as stream:
            self._process = subprocess.Popen(
                [f"{options.client}/bin/python", str(HERE / "forked.py"), str(options.modelzoo)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stream,
                text=True,
                env=environment,
            )

    def answer(self, order: dict[str, Any]) -> dict[str, Any]:
        """Have an order run."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            return {"status": "failed", "message": "the server of runs has ended; see its log"}
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """End it."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()


def main() -> int:
    """Run what is missing of the table, and print it."""
    options = parse()
    cases = [c for c in CASES.values() if not options.only or c.name.startswith(options.only)]
    table = Table(options.results)
    missing: queue.SimpleQueue[tuple[Case, str]] = queue.SimpleQueue()
    runs: set[str] = set()
    for case in cases:
        for run in options.runs:
            if SYSTEMS.get(run, 1) > case.systems or run not in runs_of(case):
                continue
            if options.again or not table.has(case, run):
                missing.put((case, run))
                runs.add(run)
    with (
        tempfile.TemporaryDirectory(prefix="wsc-modelzoo-") as scratch,
        appliances(runs, Path(scratch)) as addresses,
    ):
        if any(case.data for case in cases):
            make_data_sets(options)
        work(options, table, missing, addresses, Path(scratch))
    verdicts = {case.name: judge(case, table.of(case)) for case in cases}
    for name, verdict in verdicts.items():
        print(line(name, verdict))
    if options.document:
        report.write(options.document, verdicts, os.cpu_count() or 1)
    words = [verdict.word for verdict in verdicts.values()]
    print({word: words.count(word) for word in sorted(set(words))})
    return int("fail" in words)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--modelzoo", type=Path, required=True, help="a checkout")
    parser.add_argument("--client", type=Path, required=True, help="its environment")
    parser.add_argument("--only", nargs="*", default=(), help="beginnings of names")
    parser.add_argument("--runs", nargs="*", default=RUNS, choices=RUNS)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--parallel", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=600, help="limit of a run")
    parser.add_argument("--limit", type=int, default=10**6, help="start no run after these seconds")
    parser.add_argument("--results", type=Path, default=Path("build/modelzoo.json"))
    parser.add_argument("--document", type=Path, help="write the table into this Markdown file")
    options = parser.parse_args()
    options.only = tuple(options.only)
    options.results.parent.mkdir(parents=True, exist_ok=True)
    return options


def corpus(options: argparse.Namespace) -> Path:
    """Return where the data sets are, beside the results."""
    folder: Path = options.results.resolve().parent / "corpus"
    return folder


def make_data_sets(options: argparse.Namespace) -> None:
    """Make the data sets that are missing."""
    program = [f"{options.client}/bin/python", str(HERE / "corpus.py")]
    arguments = [str(options.modelzoo.resolve()), str(corpus(options))]
    subprocess.run([*program, *arguments], check=True, capture_output=True)


@contextlib.contextmanager
def appliances(runs: set[str], scratch: Path) -> Iterator[dict[str, str]]:
    """Start the appliances that the runs need, and say where each run goes."""
    addresses: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        for precision, served in (("f32", ("csx-1", "csx-2")), ("exact", ("exact",))):
            if not runs.intersection(served):
                continue
            arguments = ("--systems", "4", "--precision", precision)
            appliance = stack.enter_context(running_appliance(scratch / precision, *arguments))
            addresses.update(dict.fromkeys(served, appliance.address))
        yield addresses


def work(
    options: argparse.Namespace,
    table: Table,
    missing: queue.SimpleQueue[tuple[Case, str]],
    addresses: dict[str, str],
    scratch: Path,
) -> None:
    """Run what is missing, some runs side by side."""
    end = time.monotonic() + options.limit

    def serve(index: int) -> None:
        server = Server(options, scratch / f"server-{index}.log")
        while time.monotonic() < end:
            try:
                case, run = missing.get_nowait()
            except queue.Empty:
                break
            folder = scratch / case.name.replace("/", "-") / run
            order = {
                "case": case.order(),
                "work": str(folder),
                "seconds": options.seconds,
                "modelzoo": str(options.modelzoo),
                "corpus": str(corpus(options)),
                "num_csx": SYSTEMS.get(run, 1),
            }
            if run in addresses:
                order["mgmt_address"] = addresses[run]
            answer = server.answer(order)
            table.put(case, run, answer)
            print(f"{case.name} {run} {answer.get('message', answer['status'])}", flush=True)
        server.close()

    threads = [threading.Thread(target=serve, args=(k,)) for k in range(options.parallel)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def line(name: str, verdict: Verdict) -> str:
    """Return a case's line."""
    if verdict.message:
        return f"{name:28} {verdict.word:8} {verdict.message}"
    exact = "-" if verdict.exact is None else f"{verdict.exact:.1e}"
    losses = " ".join(f"{loss:.5f}" for loss in verdict.losses)
    return (
        f"{name:28} {verdict.word:8} {verdict.difference:.1e} exact {exact} "
        f"{verdict.step_seconds:7.3f} s/step  {losses}"
    )


if __name__ == "__main__":
    sys.exit(main())
