"""The real helm, from where `deploy/setup.sh kube-tools` puts it."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.helm.test_chart import MATRIX
from tests.support.helm import ROOT, Helm


def _program(name: str) -> Path:
    default = Path.home() / ".cache" / "wsc" / "kube-tools"
    program = Path(os.environ.get("WSC_KUBE_TOOLS") or default) / "bin" / name
    if not program.exists():
        subprocess.run([ROOT / "deploy" / "setup.sh", "kube-tools"], check=True)
    return program


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Helm 3."""
    return Helm(_program("helm"), home=tmp_path_factory.mktemp("helm"))


@pytest.fixture(scope="session")
def helm4(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(_program("helm4"), home=tmp_path_factory.mktemp("helm4"))


@pytest.fixture(scope="session")
def made(helm: Helm) -> dict[str, list[dict[str, Any]]]:
    """Return what the chart makes of each settings of the matrix."""
    return {name: helm.template(settings) for name, settings in MATRIX.items()}
