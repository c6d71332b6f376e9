"""Every part of the appliance has its place in the layers."""

import configparser
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_part_of_the_appliance_is_in_the_contract_of_layers():
    contracts = configparser.ConfigParser()
    contracts.read(ROOT / ".importlinter")
    layers = contracts["importlinter:contract:layers"]["layers"]
    named = set(re.findall(r"appliance\.(\w+)", layers))
    parts = {path.stem for path in (ROOT / "appliance").glob("*.py")}
    parts |= {path.parent.name for path in (ROOT / "appliance").glob("*/__init__.py")}
    assert sorted(parts - named - {"__init__"}) == []


def test_routes_call_services_and_never_what_is_kept():
    calls = {
        str(path.relative_to(ROOT)): re.findall(r"\bstate\.\w+\.\w+\(", path.read_text())
        for path in (ROOT / "appliance" / "api").rglob("*.py")
    }
    calls = {path: found for path, found in calls.items() if found}
    assert calls == {}
