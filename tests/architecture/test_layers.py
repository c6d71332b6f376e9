"""Every part of the product has its place in the layers."""

import configparser
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def _contracts():
    read = configparser.ConfigParser()
    read.read(ROOT / ".importlinter")
    return read


def test_every_package_of_the_wheel_is_held_to_the_contracts():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    shipped = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert sorted(_contracts()["importlinter"]["root_packages"].split()) == sorted(shipped)


def test_a_new_package_has_to_be_placed_in_its_layers():
    """`exhaustive` needs a container: a list of full names would let a new package go unseen."""
    contracts = _contracts()
    layers = [name for name in contracts.sections() if contracts[name].get("type", "") == "layers"]
    containers = {top for name in layers for top in contracts[name].get("containers", "").split()}
    assert containers >= {"appliance", "workers", "csctl"}
    assert [name for name in layers if contracts[name].get("exhaustive") != "True"] == []


def test_routes_call_services_and_never_what_is_kept():
    calls = {
        str(path.relative_to(ROOT)): re.findall(r"\bstate\.\w+\.\w+\(", path.read_text())
        for path in (ROOT / "appliance" / "api").rglob("*.py")
    }
    calls = {path: found for path, found in calls.items() if found}
    assert calls == {}
