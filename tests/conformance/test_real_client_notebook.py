"""The example notebook, run as it is in the environment that users have, trains, plots, cancels."""

import base64
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.appliance import Appliance
from tests.support.client import client_environment, client_venv
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.client]

ROOT = Path(__file__).parents[2]
PYTHON_DIR = Path(sys.executable).parent
"""Where csctl is; on PATH behind the client's own programs, as on a user node."""


def outputs(document: dict) -> tuple[str, list[bytes]]:
    """Return all that the cells printed, and their pictures."""
    text, pictures = "", []
    for cell in document["cells"]:
        for output in cell.get("outputs", ()):
            assert output["output_type"] != "error", "".join(output["traceback"])
            text += "".join(output.get("text", ""))
            if "image/png" in output.get("data", {}):
                pictures.append(base64.b64decode(output["data"]["image/png"]))
    return text, pictures


def test_the_example_notebook_trains_plots_and_cancels(
    appliance: Appliance, tmp_path: Path
) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    out = tmp_path / "out.ipynb"
    environment = client_environment()
    environment["CSCONFIG_PATH"] = str(appliance.config_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "csctl").symlink_to(PYTHON_DIR / "csctl")  # older clients have another one
    environment["PATH"] = f"{tmp_path / 'bin'}{os.pathsep}{environment['PATH']}"
    environment["JUPYTER_RUNTIME_DIR"] = str(tmp_path / "runtime")
    environment["IPYTHONDIR"] = str(tmp_path / "ipython")
    finished = subprocess.run(
        [
            str(client_venv() / "bin" / "python"),
            str(ROOT / "tests" / "support" / "run_notebook.py"),
            str(tmp_path / "examples" / "notebook.ipynb"),
            str(out),
            str(tmp_path / "examples"),
        ],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr[-4000:]
    text, pictures = outputs(json.loads(out.read_text()))
    first, last = map(float, re.search(r"loss ([0-9.]+) -> ([0-9.]+) in 30 steps", text).groups())
    assert 5.0 < first < 6.0, "ln 256 = 5.5 for a model that knows nothing"
    assert last < first - 1.0
    assert [picture[:4] for picture in pictures] == [b"\x89PNG"]
    assert "the run was ended" in text
    (job,) = re.findall(r"^(wsjob-\w+) CANCELLED$", text, re.MULTILINE)
    wait_until(lambda: phase(appliance, job) == "CANCELLED", seconds=120, what="CANCELLED")


def phase(appliance: Appliance, name: str) -> str:
    document = json.loads(appliance.csctl("get", "job", name, "-o", "json"))
    return str(document["status"]["phase"])


def test_the_notebook_is_kept_without_outputs() -> None:
    document = json.loads((ROOT / "examples" / "notebook.ipynb").read_text())
    code = [cell for cell in document["cells"] if cell["cell_type"] == "code"]
    assert len(code) >= 5
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
