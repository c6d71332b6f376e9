"""One version is said everywhere."""

import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]


def test_packages_chart_images_and_changelog_have_one_version():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    csctl = tomllib.loads((ROOT / "deploy/csctl/pyproject.toml").read_text())["project"]["version"]
    chart = yaml.safe_load((ROOT / "helm/wsc-appliance/Chart.yaml").read_text())
    assert {csctl, chart["version"], chart["appVersion"]} == {version}
    assert f"\n## {version}" in (ROOT / "CHANGELOG.md").read_text()
    tags = re.findall(r"wsc-appliance/[\w-]+:(\d[\w.]*)", _documents())
    assert set(tags) == {version}


def _documents() -> str:
    paths = [*(ROOT / "docs").glob("*.md"), *(ROOT / "examples").rglob("*.yaml")]
    return "\n".join(path.read_text() for path in paths)
