"""The real helm on the chart of this tree."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "helm" / "wsc-appliance"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Values given on the command line, as in `systems.count=4`.

    Attributes:
        values: The values.
        api_versions: APIs that the cluster is said to have.
    """

    values: tuple[str, ...] = ()
    api_versions: tuple[str, ...] = ("policy/v1",)


class Helm:
    """Runs helm.

    Args:
        program: Its file.
        home: Directory for what it keeps.
        kubeconfig: The cluster it works on; None for commands that need none.
    """

    def __init__(self, program: Path, *, home: Path, kubeconfig: Path | None = None) -> None:
        self._program, self._home, self._kubeconfig = program, home, kubeconfig

    def run(
        self, *arguments: str, timeout_seconds: float = 300
    ) -> subprocess.CompletedProcess[str]:
        """Run a command, whatever becomes of it."""
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("HELM_")},
            "HELM_CACHE_HOME": str(self._home / "cache"),
            "HELM_CONFIG_HOME": str(self._home / "config"),
            "HELM_DATA_HOME": str(self._home / "data"),
            "KUBECONFIG": str(self._kubeconfig or self._home / "no-kubeconfig"),
        }
        return subprocess.run(
            [str(self._program), *arguments],
            capture_output=True,
            text=True,
            env=environment,
            timeout=timeout_seconds,
            check=False,
        )

    def template(
        self, settings: Settings, *further: str, release: str = "wsc"
    ) -> list[dict[str, Any]]:
        """Return the objects that the chart makes of some values and further arguments."""
        arguments = ["template", release, str(CHART), "--namespace", "wafer", *further]
        for value in settings.values:
            arguments += ["--set", value]
        for version in settings.api_versions:
            arguments += ["--api-versions", version]
        done = self.run(*arguments)
        assert done.returncode == 0, done.stderr
        return [found for found in yaml.safe_load_all(done.stdout) if found]

    def refusal(self, settings: Settings) -> str:
        """Return why the chart makes nothing of some values."""
        sets = [part for value in settings.values for part in ("--set", value)]
        done = self.run("template", "wsc", str(CHART), *sets)
        assert done.returncode != 0, "the values are taken"
        return done.stderr
