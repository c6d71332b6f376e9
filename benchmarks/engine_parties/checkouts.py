"""The engine of this checkout beside that of another one, in the same minutes.

    python -m benchmarks.engine_parties.checkouts OTHER [--shape NAME] [--group NAME] [--party ...]

OTHER is a checkout of this repository, such as `git worktree add OTHER main`. Where a machine's
speed changes by half from one minute to the next, two runs one after the other do not say which
version is faster. Here both are resident and take turns, as everybody does in `benchmarks.engine`,
whose groups and parties are meant. Both use the kernels that the first to come measures. Prints a
table, and for each party this checkout's throughput over the other's and the other's processor time
over this one's: above 1, this checkout is better.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from appliance.coordinator.run.kernel_selection import KernelTable
from benchmarks.engine import GROUPS, NEEDS_CUDA, SHAPES, Table
from benchmarks.engine_parties import served_party
from benchmarks.engine_parties.comparison import Comparison
from benchmarks.engine_parties.engine_party import EngineParty
from benchmarks.engine_parties.until_parent_ends import ending_with_this_process
from benchmarks.programs.models import model_of

THIS = Path(__file__).parents[2]
_LOG_BYTES = 2000


class CheckoutParty:
    """A party of a checkout; see `benchmarks.engine_parties.party.Party`.

    Args:
        name: In tables.
        checkout: The checkout's directory.
        like: The same party of this checkout; not started.
        arguments: Of `served_party`: shape, group and party.
        directory: Where its files and its log go; its path must be short.
        kernels: Where what is measured of kernels is shared.
    """

    def __init__(
        self,
        name: str,
        *,
        checkout: Path,
        like: EngineParty,
        arguments: Sequence[str],
        directory: Path,
        kernels: Path,
    ) -> None:
        self.name, self.needed_bytes = name, like.needed_bytes
        self._checkout, self._directory = checkout, directory
        self._arguments = (*arguments, str(directory), str(kernels))
        self._process: subprocess.Popen[str] | None = None
        self._pods: list[psutil.Process] = []

    def start(self) -> None:
        """Start it; raises RuntimeError if it does not come up."""
        self._directory.mkdir()
        command = (sys.executable, served_party.__file__, *self._arguments)
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                ending_with_this_process(command),
                cwd=self._checkout,
                env=os.environ | {"PYTHONPATH": str(self._checkout)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                bufsize=1,
            )
        self._pods = [psutil.Process(pid) for pid in self._answer()["pods"]]

    def run(self, num_steps: int) -> float:
        """Do so many steps and return the last one's loss."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(f"{num_steps}\n")
        loss: float = self._answer()["loss"]
        return loss

    def processes(self) -> list[psutil.Process]:
        """Return the pods' processes."""
        return self._pods

    def close(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.communicate()  # its standard input ends, and it ends its pods

    @property
    def _log(self) -> Path:
        return self._directory / "log"

    def _answer(self) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended: {self._log.read_text()[-_LOG_BYTES:]}")
        answer: dict[str, Any] = json.loads(line)
        return answer


def compare(options: argparse.Namespace, folder: Path) -> None:
    """Let the parties take turns, and print what comes of it."""
    shape = SHAPES[options.shape]
    table = Table(options.shape, shape, folder, KernelTable(folder))
    likes = {
        party.name: party
        for party in GROUPS[options.group](table)
        if isinstance(party, EngineParty) and (not options.party or party.name in options.party)
    }
    if not likes or not likes.keys() >= set(options.party):
        known = [p.name for p in GROUPS[options.group](table) if isinstance(p, EngineParty)]
        raise SystemExit(f"{options.group} has our parties {', '.join(known) or 'none'}")
    labels = {"this": THIS, "other": options.other.resolve()}
    parties = [
        CheckoutParty(
            f"{name}@{label}",
            checkout=checkout,
            like=like,
            arguments=(options.shape, options.group, name),
            directory=folder / f"{label}{number}",
            kernels=folder,
        )
        for number, (name, like) in enumerate(likes.items())
        for label, checkout in labels.items()
    ]
    comparison = Comparison(shape.units_a_step, model_of(shape).unit)
    comparison.add_rounds(parties, num_rounds=options.rounds, num_steps=options.steps)
    for row in comparison.rows(parties[1].name):
        print(row)
    print()
    for name in likes:
        pair = f"{name}@this", f"{name}@other"
        by_time, by_processor = comparison.ratio(*pair), comparison.cpu_ratio(*pair)
        print(f"{name} {by_time:.3f} by time, {by_processor:.3f} by processor time")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    groups = sorted(GROUPS.keys() - NEEDS_CUDA)
    parser.add_argument("other", type=Path, help="the other checkout")
    parser.add_argument("--shape", choices=sorted(SHAPES), default="d512")
    parser.add_argument("--group", choices=groups, default="ours")
    parser.add_argument("--party", nargs="+", default=[], help="default: all of ours in the group")
    parser.add_argument("--rounds", type=int, default=6, help="rounds of turns; default: 6")
    parser.add_argument("--steps", type=int, default=4, help="steps of a turn; default: 4")
    options = parser.parse_args(arguments)
    if not (options.other / "benchmarks" / "engine.py").exists():
        parser.error(f"{options.other} is no checkout of this repository")
    with tempfile.TemporaryDirectory(prefix="wsc-b-") as folder:
        compare(options, Path(folder))


if __name__ == "__main__":
    main()
