"""Managements in the foreground whose pods are pods of a Kubernetes cluster."""

import json
import os
import pwd
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from tests.support.appliance import Appliance
from tests.support.pod_programs import ROOT
from tests.support.ports import free_port


class KubeAppliance:
    """Replicas of one management over one data directory.

    Args:
        directory: Where everything is.
        kubeconfig: Whom they are to the API server.
        lease_seconds: A leader that is gone is replaced after so long.
        cluster: What there is, as options of `appliance up`.
        settings: Further settings of the launcher, as its file has them.
        arguments: Further arguments of every replica.
    """

    def __init__(
        self,
        directory: Path,
        kubeconfig: Path,
        *,
        lease_seconds: float = 3.0,
        cluster: Sequence[str] = ("--systems", "2"),
        settings: Mapping[str, object] | None = None,
        arguments: Sequence[str] = (),
    ) -> None:
        self.directory, self.data_dir = directory, directory / "data"
        self._kubeconfig, self._cluster = kubeconfig, cluster
        self._arguments = tuple(arguments)
        self._ports = (free_port(), free_port(), free_port())
        self.settings = directory / "kubernetes.yaml"
        directory.mkdir(parents=True, exist_ok=True)
        self._own = {
            "image": "wsc-appliance:test",
            "dataVolume": {"claim": "wsc-data", "path": str(self.data_dir)},
            "runtimeRoot": f"/tmp/wsc-k{os.getpid()}",
            "groupId": os.getgid(),
            "leaseSeconds": lease_seconds,
            "standbyFile": None,
            **(settings or {}),
        }
        self.settings.write_text(yaml.safe_dump(self._own))
        self.replicas: list[subprocess.Popen] = []
        self._proxy: subprocess.Popen | None = None
        self._public_port = 0

    @property
    def appliance(self) -> Appliance:
        """What csctl and clients talk to."""
        return Appliance(self.data_dir)

    @property
    def public_port(self) -> int:
        """Where clients connect to a proxy that was started; else 0."""
        return self._public_port

    @property
    def rest_port(self) -> int:
        """Where the leader has REST."""
        return self._ports[1]

    def take_settings(self, text: str) -> None:
        """Give replicas that are started later these settings, but for what this machine has."""
        self.settings.write_text(yaml.safe_dump({**yaml.safe_load(text), **self._own}))

    def start_replica(self, *arguments: str) -> subprocess.Popen:
        port, rest_port, inner_port = self._ports
        log = self.directory / f"management-{len(self.replicas)}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "appliance", "up", "--foreground"),
                    *("--data-dir", str(self.data_dir), *self._cluster),
                    *("--port", str(port), "--rest-port", str(rest_port)),
                    *("--public-port", str(self._public_port)),
                    *("--inner-host", "127.0.0.1", "--inner-port", str(inner_port)),
                    *("--launcher", "kubernetes", "--kubernetes", str(self.settings)),
                    *("--tls", "--streams", "network-tls", *self._arguments, *arguments),
                ],
                cwd=ROOT,
                env={
                    **os.environ,
                    "KUBECONFIG": str(self._kubeconfig),
                    "PYTHONPATH": str(ROOT),
                    "PYTHONWARNINGS": "ignore",
                },
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self.replicas.append(process)
        return process

    def token(self) -> str:
        """Return a new token of this process's user."""
        return self.appliance.command(*self.token_words(), program="appliance").strip()

    @staticmethod
    def token_words() -> tuple[str, ...]:
        """Return what makes `appliance` create such a token."""
        uid, gid = os.getuid(), os.getgid()
        name = pwd.getpwuid(uid).pw_name
        return "token", "create", name, "--uid", str(uid), "--gid", str(gid)

    def start_proxy(self) -> None:
        """Start what clients connect to; replicas that are started later tell them so.

        Who comes through a proxy has to show a token.
        """
        self._public_port = free_port()
        self._arguments = tuple(dict.fromkeys((*self._arguments, "--tokens")))
        with (self.directory / "proxy.log").open("wb") as output:
            self._proxy = subprocess.Popen(
                [
                    *(sys.executable, "-m", "appliance.start", "proxy"),
                    *("--management", f"127.0.0.1:{self._ports[0]}"),
                    *("--port", str(self._public_port)),
                    *("--database", f"sqlite:///{self.data_dir}/state.db"),
                ],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def leader_pid(self) -> int:
        """Return the process id of the one that serves; 0 if none does."""
        try:
            return int(json.loads((self.data_dir / "appliance.json").read_text())["pid"])
        except FileNotFoundError:
            return 0

    def logs(self) -> str:
        paths = sorted(self.directory.glob("*.log"))
        return "\n".join(f"== {path.name}\n{path.read_text()[-4000:]}" for path in paths)

    def close(self) -> None:
        processes = [*self.replicas, *([self._proxy] if self._proxy else [])]
        for process in processes:
            process.terminate()
        for process in processes:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
