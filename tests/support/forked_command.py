"""A command of a shell that is forked from an interpreter with its imports.

    python -S tests/support/forked_command.py FILE WORD...

FILE is what `write` has written; the words are the program's, which has this process's directory,
environment, input and output. Its exit code and the signals that ask a program to end pass through.
"""

import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

if __name__ == "__main__":  # without `site`, and wherever it is started
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests.support.forked import VARIABLE, ForkedProcess, fork_server, place


def write(path: Path, python: Path, preloaded: Sequence[str], settled: Mapping[str, str]) -> str:
    """Write down where a command is forked, and return the start of a line that runs one.

    Args:
        path: The file, which is made.
        python: The interpreter.
        preloaded: Modules that it imports.
        settled: The environment in which it does.
    """
    told = {"python": str(python), "preloaded": [*preloaded], "settled": {**settled}}
    path.write_text(json.dumps({**told, "place": place()}))
    return f"exec {sys.executable} -S {Path(__file__).resolve()} {path}"


def _start(told: Mapping[str, object], words: Sequence[str]) -> ForkedProcess:
    os.environ[VARIABLE] = str(told["place"])
    preloaded, settled = told["preloaded"], told["settled"]
    assert isinstance(preloaded, list)
    assert isinstance(settled, dict)
    server = fork_server(Path(str(told["python"])), tuple(preloaded), settled)
    return server.inherit(
        words, environment=os.environ, cwd=Path.cwd(), output=1, errors=2, standard_input=0
    )


def main() -> None:
    """Start the program, and end as it does."""
    file, *words = sys.argv[1:]
    process = _start(json.loads(Path(file).read_text()), words)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda received, _: process.send_signal(received))
    code = process.wait()
    os._exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
