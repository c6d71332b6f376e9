import tomllib
from pathlib import Path

from csctl.command_line.version import csctl_version

PROJECT = Path(__file__).parents[3] / "pyproject.toml"


def test_csctl_has_the_version_of_its_distribution() -> None:
    assert csctl_version() == tomllib.loads(PROJECT.read_text())["project"]["version"]
