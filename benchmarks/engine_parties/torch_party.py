"""Baselines on PyTorch: one process or several ranks, each driven over its standard input."""

import json
import os
import socket
import sys
from dataclasses import asdict
from pathlib import Path

import psutil

from benchmarks.engine_parties.environment import (
    BaselineMissingError,
    baselines_environment,
    baselines_python,
    require_compiler,
)
from benchmarks.engine_parties.interpreters import Program, start_party, text_of
from benchmarks.engine_parties.party import memory_needed, with_children
from benchmarks.programs.models import Shape, model_name

RANK = Path(__file__).with_name("rank.py")
ADDRESS = "127.0.0.1"
SHARED_MEMORY = Path("/dev/shm")
"""Where DeepSpeed's ranks keep buffers, named after their group; it never removes them."""


class TorchParty:
    """One kind of baseline; see `benchmarks.engine_parties.rank`.

    Attributes:
        needed_bytes: Memory that its processes take, estimated.

    Args:
        name: In tables.
        kind: As `rank.py` takes it.
        shape: What is trained.
        num_ranks: Processes.
        threads: Threads of each.
        directory: Where the logs go.
    """

    def __init__(
        self,
        name: str,
        *,
        kind: str,
        shape: Shape,
        num_ranks: int,
        threads: int,
        directory: Path,
    ) -> None:
        self.name = name
        self._kind, self._shape = kind, shape
        self._num_ranks, self._threads = num_ranks, threads
        self.needed_bytes = memory_needed(shape, num_processes=num_ranks, num_replicas=num_ranks)
        self._log = directory / f"{name}.log"
        self._ranks: list[Program] = []
        self._port = 0

    def start(self) -> None:
        """Start every rank; raises BaselineMissingError if one does not come up."""
        python, environment = Path(sys.executable), dict(os.environ)
        if self._kind.startswith("compiled"):
            require_compiler("torch.compile")
        if self._kind == "zero3":
            python = baselines_python()
            environment = baselines_environment(python)
        self._port = _free_port()
        environment |= {
            "OMP_NUM_THREADS": str(self._threads),
            "MASTER_ADDR": ADDRESS,
            "MASTER_PORT": str(self._port),
            "WORLD_SIZE": str(self._num_ranks),
            "LOCAL_SIZE": str(self._num_ranks),
        }
        command = [str(python), str(RANK), "--kind", self._kind, "--threads", str(self._threads)]
        command += ["--model", model_name(self._shape)]
        command += ["--shape", json.dumps(asdict(self._shape))]
        with self._log.open("w") as log:
            for number in range(self._num_ranks):
                own = {"RANK": str(number), "LOCAL_RANK": str(number)}
                self._ranks.append(start_party(command, environment | own, log))
        for rank in self._ranks:
            self._answer(rank)

    def run(self, num_steps: int) -> float:
        """Have every rank do so many steps; return the mean of their last losses."""
        for rank in self._ranks:
            text_of(rank.stdin).write(f"{num_steps}\n")
        losses = [self._answer(rank)["loss"] for rank in self._ranks]
        return sum(losses) / len(losses)

    def processes(self) -> list[psutil.Process]:
        """Return the ranks and what they started."""
        return [p for rank in self._ranks for p in with_children(psutil.Process(rank.pid))]

    def close(self) -> None:
        """End the ranks, and remove the shared memory that they leave behind."""
        for rank in self._ranks:
            rank.kill()
        for rank in self._ranks:
            rank.wait()
            text_of(rank.stdin).close()
            text_of(rank.stdout).close()
        self._ranks = []
        for left in SHARED_MEMORY.glob(f"deepspeed_*_{ADDRESS}_{self._port}_*"):
            left.unlink()

    def _answer(self, rank: Program) -> dict[str, float]:
        line = text_of(rank.stdout).readline()
        if not line:
            tail = "; ".join(self._log.read_text().strip().splitlines()[-3:])
            raise BaselineMissingError(f"{self.name} ended: {tail}")
        answer: dict[str, float] = json.loads(line)
        return answer


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
