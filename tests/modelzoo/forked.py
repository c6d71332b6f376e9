"""Runs of cases, each in a process of its own, forked from one that has imported the Model Zoo.

A program of the client's environment. It reads one order a line from standard input, as JSON, and
writes one answer a line to standard output:

    {"case": {...}, "work": DIR, "seconds": 300, "modelzoo": DIR, "num_csx": 1,
     "mgmt_address": "localhost:9000"}
    {"status": "done", "result": {...}}      or "failed" with a message, or "late"

Without an address the case runs on the CPU backend. What it prints goes to DIR/log.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
MESSAGE = 400
"""Longest message of a failure."""


def main(modelzoo: str) -> int:
    """Serve orders until the end of standard input."""
    sys.path[:0] = [str(HERE), f"{modelzoo}/src"]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    from run_case import prepare

    prepare()
    for line in sys.stdin:
        answer = in_child(json.loads(line))
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    return 0


def in_child(order: dict[str, Any]) -> dict[str, Any]:
    """Run an order in a process group of its own, and end that group."""
    work = Path(order["work"])
    work.mkdir(parents=True, exist_ok=True)
    child = os.fork()
    if child == 0:
        os.setsid()
        _run(order, work)
    ended, _, _ = select.select([os.pidfd_open(child)], [], [], order["seconds"])
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    if not ended:
        return {"status": "late"}
    result, error = work / "result.json", work / "error"
    if result.exists():
        return {"status": "done", "result": json.loads(result.read_text())}
    message = error.read_text() if error.exists() else "the process died"
    return {"status": "failed", "message": message[:MESSAGE]}


def _run(order: dict[str, Any], work: Path) -> None:
    try:
        log = os.open(work / "log", os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.chdir(work)
        from run_case import Run

        run = Run(order)
        run.run()
        (work / "result.json").write_text(json.dumps(run.result()))
    except BaseException as error:  # noqa: BLE001 - the parent reports what it was
        traceback.print_exc()
        (work / "error").write_text(described(error))
    finally:
        os._exit(0)


def described(error: BaseException) -> str:
    """Return the message of the error that began it: the trainer wraps what its callbacks raise."""
    while error.__cause__ is not None:
        error = error.__cause__
    place = traceback.extract_tb(error.__traceback__)[-1]
    text = f"{' '.join(str(error).split())} at {place.filename}:{place.lineno}"
    return f"{type(error).__name__}: {text}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
