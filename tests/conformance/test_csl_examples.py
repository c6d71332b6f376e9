"""The public CSL examples, from a checkout that the variable EXAMPLES names; else left out."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.csl_examples import Example, examples, make_tools, parses, run, sources

pytestmark = pytest.mark.slow

DIRECTORY = os.environ.get("EXAMPLES", "")
FOUND = list(examples(Path(DIRECTORY))) if DIRECTORY else []


@pytest.fixture(scope="module")
def scratch(tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("examples")
    make_tools(directory)
    return directory


@pytest.mark.skipif(not DIRECTORY, reason="EXAMPLES names no checkout of public examples")
def test_every_source_parses():
    bad = [str(path) for path in sources(Path(DIRECTORY)) if not parses(path).is_good]
    assert bad == []


@pytest.mark.parametrize("example", FOUND, ids=lambda example: example.name)
def test_a_command_file_does_what_it_should(example: Example, scratch: Path):
    outcome = run(example, scratch)
    assert outcome.is_good, f"{outcome.words}\n{outcome.output[-3000:]}"


@pytest.mark.parametrize(
    "example",
    [each for each in FOUND if each.program == "pipeline-01-basic"],
    ids=lambda example: example.name,
)
def test_a_pipeline_that_is_longer_than_its_queues_reports_a_stall(
    example: Example, scratch: Path, tmp_path: Path
):
    size = 15 if example.architecture == "wse2" else 40  # WSE-3 has deeper queues
    directory = Path(shutil.copytree(example.commands.parent, tmp_path / "pipeline"))
    commands = directory / example.commands.name
    commands.write_text(commands.read_text().replace("size:12", f"size:{size}"))
    done = subprocess.run(
        ["bash", commands.name],
        cwd=directory,
        env={**os.environ, "PATH": f"{scratch / 'run'}:{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode != 0
    assert "the host waits for PEs to accept wavelets of color 0" in done.stdout
