"""What each role of a job takes more of memory with every step of a long run.

    python -m benchmarks.memory_growth [--only FEATURE ...] [--steps 5000]

The real client trains, or generates, on an appliance of its own. After warm-up, a quarter of the
steps, memory is what no file stands behind, and its growth is the slope of a line through it. One
line for each feature and role, `name KiB-a-step bar ok|MISSED`; exits 1 if one is missed.
"""

import argparse
import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import psutil

from appliance.core.ids import Role
from appliance.management.store.instance import Instance
from benchmarks.client_scripts.running import appliance, start_client
from benchmarks.engine_parties.interpreters import text_of
from benchmarks.memory import own_memory
from tests.support.processes import command_of

_PROGRAMS = Path(__file__).resolve().parents[1] / "tests" / "conformance" / "client"
_TRAIN = "train.py"
FEATURES: Mapping[str, tuple[str, ...]] = {
    "dense": (_TRAIN, "--model", "gpt_adamw"),
    "sparse": (_TRAIN, "--model", "sparse_gpt"),
    "experts": (_TRAIN, "--model", "routed_experts"),
    "generation": ("generation.py", "--model", "llama", "--positions", "24"),
}
"""Program and arguments by feature; `sparse` has static, GMP and RigL masks in one decoder."""

MOST = 0.1
"""KiB a step."""
NUM_LOOKS = 50
SERVER = "management"
_KIB = 1024
_STEP = re.compile(r"(?:train step|batch) (\d+)\b.*")
_TITLE = re.compile(rf"(?P<job>wsjob-\w+)-(?P<role>{'|'.join(Role)})-\d+")

Looks = Mapping[str, Sequence[tuple[int, int]]]
"""Steps that were done and bytes that the role took then, by role."""


def growth(looks: Sequence[tuple[int, int]]) -> float:
    """Return by how many bytes memory grows with a step, after a quarter of the steps.

    Args:
        looks: Steps that were done and bytes that were taken then, in order; at least three after
            the first quarter.
    """
    steps, sizes = np.array(looks, dtype=float).T
    late = steps >= steps[-1] / 4
    slope, _ = np.polyfit(steps[late], sizes[late], 1)
    return float(slope)


def memory_of(data_dir: Path) -> dict[str, int]:
    """Return the bytes of each role of the appliance's jobs, and of its server."""
    jobs = {path.name for path in (data_dir / "jobs").iterdir()}
    found: dict[str, int] = defaultdict(int)
    for process in psutil.process_iter():
        title = _TITLE.match(next(iter(command_of(process)), ""))
        if title is not None and title["job"] in jobs:
            found[title["role"]] += own_memory(process.pid).anonymous_bytes
    state = Instance(data_dir).find_state()
    assert state is not None
    found[SERVER] = own_memory(state.pid).anonymous_bytes
    return found


def watched(feature: str, steps: int, address: str, place: Path) -> Looks:
    """Run a feature for so many steps; return what its pods took meanwhile."""
    directory = place / feature
    directory.mkdir()
    program, *arguments = FEATURES[feature]
    amount = "--steps" if program == _TRAIN else "--batches"
    where = ("--backend", "CSX", "--mgmt-address", address, "--out", directory / "result.json")
    log = directory / "client.log"
    client = start_client(
        str(_PROGRAMS / program),
        *(*arguments, amount, steps, *where),
        directory=directory,
        log=log,
    )
    looks: dict[str, list[tuple[int, int]]] = defaultdict(list)
    with client:
        for line in text_of(client.stdout):
            told = _STEP.match(line)
            if told is None or int(told[1]) % max(steps // NUM_LOOKS, 1) or int(told[1]) == steps:
                continue
            for role, size in memory_of(place / "appliance").items():
                looks[role].append((int(told[1]), size))
    assert client.wait() == 0, log.read_text()[-4000:]
    return looks


def lines(feature: str, looks: Looks) -> Iterator[str]:
    """Yield the lines of a feature, of each role that was there all the time."""
    longest = max(map(len, looks.values()))
    for role, of_role in sorted(looks.items()):
        if len(of_role) < longest:
            continue
        value = growth(of_role) / _KIB
        verdict = "ok" if value <= MOST else "MISSED"
        yield f"growth.{feature}.{role} {value:.3f} <={MOST} {verdict}"


def main() -> int:
    """Run from the command line; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=sorted(FEATURES), default=list(FEATURES))
    parser.add_argument("--steps", type=int, default=5000)
    options = parser.parse_args()
    is_met = True
    with tempfile.TemporaryDirectory(prefix="wsc-growth-") as folder:
        place = Path(folder)
        with appliance(place / "appliance") as address:
            for feature in options.only:
                for line in lines(feature, watched(feature, options.steps, address, place)):
                    print(line, flush=True)
                    is_met = is_met and line.endswith("ok")
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
