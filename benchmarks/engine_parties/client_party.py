"""The real client with one script: on its own CPU backend, or on an appliance with all its pods.

The script's dataloader takes a byte from a socket for each batch, in the client itself or in its
streamers, so that a block of steps is let in from outside as for every other party.
"""

import contextlib
import json
import socket
import threading
from dataclasses import asdict
from pathlib import Path

import psutil

from benchmarks.client_scripts.running import appliance, start_client
from benchmarks.engine_parties.environment import BaselineMissingError
from benchmarks.engine_parties.interpreters import Program
from benchmarks.engine_parties.party import memory_needed, with_children
from benchmarks.programs.gpt import GptShape
from tests.support.appliance import Appliance

_MAX_STEPS = 1_000_000


class BatchGate:
    """Hands out a byte for each batch that is allowed, to every loader that connects.

    Args:
        path: Of the Unix socket.
    """

    def __init__(self, path: Path) -> None:
        self._allowed = 0
        self._loaders: list[socket.socket] = []
        self._lock = threading.Lock()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        threading.Thread(target=self._admit, daemon=True).start()

    def allow(self, num_batches: int) -> None:
        """Let every loader yield so many more batches."""
        with self._lock:
            self._allowed += num_batches
            self._loaders = [peer for peer in self._loaders if _sent(peer, num_batches)]

    def close(self) -> None:
        """End every loader."""
        with self._lock:
            for loader in self._loaders:
                loader.close()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _admit(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                loader, _ = self._listener.accept()
                with self._lock:
                    if _sent(loader, self._allowed):
                        self._loaders.append(loader)


def _sent(loader: socket.socket, num_batches: int) -> bool:
    try:
        loader.sendall(bytes(num_batches))
    except OSError:
        return False
    return True


class ClientParty:
    """The client's script on one of its backends.

    Attributes:
        needed_bytes: Memory that its processes take, estimated.

    Args:
        name: In tables.
        shape: What is trained.
        num_systems: CS-2 systems; 0 is the client's CPU backend.
        directory: Where logs, sockets and the appliance's data go; its path must be short.
        options: Of `appliance up`.
    """

    def __init__(
        self,
        name: str,
        *,
        shape: GptShape,
        num_systems: int,
        directory: Path,
        options: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self._shape, self._num_systems = shape, num_systems
        # The client's weights and checkpoints, and the pods of a job with their input workers.
        self.needed_bytes = memory_needed(
            shape, num_processes=3 + 4 * num_systems, num_replicas=1 if num_systems == 0 else 2
        )
        self._directory, self._options = directory, options
        self._open = contextlib.ExitStack()
        self._gate: BatchGate | None = None
        self._client: Program | None = None
        self._num_done = 0

    def start(self) -> None:
        """Start the appliance if there is to be one, and the script."""
        self._directory.mkdir()
        path = self._directory / "gate"
        self._gate = BatchGate(path)
        self._gate.allow(1)  # the client traces with it
        arguments: list[object] = ["--steps", _MAX_STEPS, "--gate", path]
        arguments += ["--shape", json.dumps(asdict(self._shape))]
        if self._num_systems:
            up = appliance(self._data_dir, "--systems", str(self._num_systems), *self._options)
            address = self._open.enter_context(up)
            arguments += ["--mgmt-address", address, "--num-csx", self._num_systems]
        else:
            arguments += ["--backend", "CPU"]
        log = self._directory / "client.log"
        self._client = start_client("train_gpt.py", *arguments, directory=self._directory, log=log)
        self._wait_for(1)

    def run(self, num_steps: int) -> float:
        """Let the batches of so many steps in; return the last one's loss."""
        assert self._gate is not None
        self._gate.allow(num_steps)
        return self._wait_for(self._num_done + num_steps)

    def processes(self) -> list[psutil.Process]:
        """Return the client, and everything of the appliance."""
        assert self._client is not None
        found = with_children(psutil.Process(self._client.pid))
        if self._num_systems:
            found += Appliance(self._data_dir).processes()
        return list(dict.fromkeys(found))

    def close(self) -> None:
        """End the script, then the appliance."""
        if self._gate is not None:
            self._gate.close()
        if self._client is not None:
            self._client.kill()
            self._client.wait()
        self._open.close()

    @property
    def _data_dir(self) -> Path:
        return self._directory / "a"

    def _wait_for(self, num_steps: int) -> float:
        assert self._client is not None
        assert self._client.stdout is not None
        loss = float("nan")
        while self._num_done < num_steps:
            line = self._client.stdout.readline()
            if not line:
                log = (self._directory / "client.log").read_text()
                raise BaselineMissingError(f"{self.name} ended: {log.strip()[-300:]}")
            if line.startswith('{"step"'):
                told = json.loads(line)
                self._num_done, loss = told["step"], told["loss"]
        return loss
