"""The public CSL examples, from a checkout that the variable EXAMPLES names; else left out."""

import os
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
