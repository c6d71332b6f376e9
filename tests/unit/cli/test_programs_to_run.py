"""What pods run is the product's own; another program needs a command line of its own."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from appliance.start import app

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("command", ["up", "node"])
def test_no_flag_gives_pods_another_program(command) -> None:
    answer = CliRunner().invoke(app, [command, "--join", "h:1", "--test-entry", "chief=x"])
    assert answer.exit_code == 2
    assert "No such option" in answer.output


def test_nothing_of_the_product_makes_a_program_but_the_default_one() -> None:
    made = [
        (str(path.relative_to(ROOT)), call)
        for package in ("cli", "management", "cluster")
        for path in sorted((ROOT / "appliance" / package).rglob("*.py"))
        for call in re.findall(r"(?:Program|PodPrograms)\([^)]", path.read_text())
    ]
    assert made == []
