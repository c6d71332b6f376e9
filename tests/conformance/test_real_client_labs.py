"""The labs of docs/labs, run as they are in the environment that users have."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conformance.test_real_client_notebook import PYTHON_DIR, outputs
from tests.support.appliance import Appliance
from tests.support.client import client_environment, client_venv

pytestmark = [pytest.mark.slow, pytest.mark.client]

ROOT = Path(__file__).parents[2]
LABS = sorted(path.stem for path in (ROOT / "examples" / "labs").glob("*.ipynb"))
SLIDE = (1920, 1080)
SAID = {
    "1_weight_streaming": r"(\d+) of (\d+) weight streams take less time than",
    "2_memory": r"1\.000 times the working memory at 64 times the depth",
    "3_scaling": r"from \d+ systems on, more than half of what they could do is lost",
    "4_wafer_picture": r"CS-2: 750 columns x 994 rows of PEs",
    "5_planning_70b": r"70\.\d B parameters, 1\.4\d T tokens",
}


def run_lab(name: str, appliance: Appliance, directory: Path) -> tuple[str, list[bytes]]:
    """Run a lab and return what it printed and drew."""
    shutil.copytree(ROOT / "examples", directory / "examples")
    status = appliance.command("status", program="appliance")
    rest = re.search(r"REST +(\S+)", status)
    assert rest is not None
    environment = client_environment() | {
        "CSCONFIG_PATH": str(appliance.config_path),
        "WSC_REST": rest[1],
        "JUPYTER_RUNTIME_DIR": str(directory / "runtime"),
        "IPYTHONDIR": str(directory / "ipython"),
    }
    environment["PATH"] += f"{os.pathsep}{PYTHON_DIR}"
    labs, out = directory / "examples" / "labs", directory / "out.ipynb"
    python, runner = (
        client_venv() / "bin" / "python",
        ROOT / "tests" / "support" / "run_notebook.py",
    )
    command = [str(word) for word in (python, runner, labs / f"{name}.ipynb", out, labs)]
    finished = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr[-4000:]
    return outputs(json.loads(out.read_text()))


def size_of(picture: bytes) -> tuple[int, int]:
    """Return the width and the height of a PNG."""
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    return int.from_bytes(picture[16:20], "big"), int.from_bytes(picture[20:24], "big")


def make_slides(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run docs/labs/slides.py with labs that ask the planner only, so that no appliance runs."""
    environment = client_environment() | {
        "JUPYTER_RUNTIME_DIR": str(directory / "runtime"),
        "IPYTHONDIR": str(directory / "ipython"),
    }
    environment["PATH"] += f"{os.pathsep}{PYTHON_DIR}"
    command = [client_venv() / "bin" / "python", ROOT / "docs" / "labs" / "slides.py", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_figures_of_labs_are_written_as_slides(tmp_path: Path) -> None:
    slides = tmp_path / "new" / "slides"
    made = make_slides(tmp_path, str(slides), "3_scaling", "2_memory")
    assert made.returncode == 0, made.stderr[-4000:]
    files = [slides / "3_scaling-1.png", slides / "2_memory-1.png"]
    assert made.stdout.split() == [str(file) for file in files]
    assert sorted(slides.iterdir()) == sorted(files)
    assert [size_of(file.read_bytes()) for file in files] == [SLIDE, SLIDE]


def test_a_lab_that_does_not_exist_makes_no_slide(tmp_path: Path) -> None:
    refused = make_slides(tmp_path, str(tmp_path / "slides"), "6_magic")
    assert refused.returncode == 1
    assert "There is no lab '6_magic'; labs are 1_weight_streaming, 2_memory" in refused.stderr
    assert not (tmp_path / "slides").exists()


@pytest.mark.parametrize("name", LABS)
def test_a_lab_runs_as_it_is_and_shows_what_it_promises(
    name: str, appliance: Appliance, tmp_path: Path
) -> None:
    text, pictures = run_lab(name, appliance, tmp_path)
    assert re.search(SAID[name], text), text
    assert len(pictures) == 1
    assert size_of(pictures[0]) == SLIDE
    if name == "1_weight_streaming":
        assert re.search(r"forward: [1-9][\d,]* bytes of weights in, 8 of gradients out", text)
        assert re.search(r"backward: [1-9][\d,]* bytes of weights in, [1-9][\d,]* of gradi", text)


def test_every_lab_has_its_page_and_is_kept_without_outputs() -> None:
    for name in LABS:
        assert (ROOT / "docs" / "labs" / f"{name.replace('_', '-')}.md").is_file()
        document = json.loads((ROOT / "examples" / "labs" / f"{name}.ipynb").read_text())
        code = [cell for cell in document["cells"] if cell["cell_type"] == "code"]
        assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
