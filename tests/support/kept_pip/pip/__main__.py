"""`python -m pip`, asked once: the next who asks the same gets the same answer.

Every run of the public client asks pip three times what its environment has, which takes three
seconds of a core, and the tests' environment stays as it is. The first to ask in a folder
(`KEPT_PIP_ANSWERS`) asks pip itself. Runs with nothing but the standard library.
"""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]


def ask() -> subprocess.CompletedProcess[bytes]:
    """Ask pip itself."""
    paths = os.environ["PYTHONPATH"].split(os.pathsep)
    others = os.pathsep.join(path for path in paths if Path(path).resolve() != HERE)
    environment = {**os.environ, "PYTHONPATH": others}
    command = [sys.executable, "-m", "pip", *sys.argv[1:]]
    return subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=False)


def main() -> int:
    """Print the answer, and keep it if it is good; return the exit code."""
    asked = "\0".join([sys.executable, *sys.argv[1:]])
    kept = Path(os.environ["KEPT_PIP_ANSWERS"]) / hashlib.sha256(asked.encode()).hexdigest()
    if not kept.exists():
        answer = ask()
        if answer.returncode != 0:
            sys.stdout.buffer.write(answer.stdout)
            return answer.returncode
        whole = kept.with_suffix(f".{os.getpid()}")
        whole.write_bytes(answer.stdout)
        whole.rename(kept)
    sys.stdout.buffer.write(kept.read_bytes())
    return 0


if __name__ == "__main__":
    sys.exit(main())
