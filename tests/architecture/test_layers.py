"""Every part of the product has its place in the layers."""

import ast
import configparser
import os
import re
import textwrap
import tomllib
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[2]
LAYERS = re.compile(r"<!-- layers -->.*<!-- /layers -->", re.DOTALL)


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


def test_the_architecture_shows_the_layers_that_are_checked():
    """`LAYERS_WRITE=1 pytest tests/architecture/test_layers.py` writes them anew."""
    page = ROOT / "ARCHITECTURE.md"
    wanted = f"<!-- layers -->\n```\n{_layers()}\n```\n<!-- /layers -->"
    if os.environ.get("LAYERS_WRITE"):
        page.write_text(LAYERS.sub(lambda _: wanted, page.read_text()))
    assert LAYERS.findall(page.read_text()) == [wanted], f"run LAYERS_WRITE=1 pytest {__file__}"


def test_modules_that_are_imported_by_name_close_no_circle():
    """`import_module("a.b")` hides an import from the contracts: its text counts as one here."""
    graph = grimp.build_graph("appliance", "workers", "csctl", cache_dir=None)
    named = [
        (module, name)
        for module in graph.modules
        for name in _modules_named_in(module) & graph.modules
        if name != module
    ]
    assert ("appliance.observability.tracing", "appliance.observability.otlp") in named
    assert [each for each in named if graph.chain_exists(each[1], each[0])] == []


def _modules_named_in(module: str) -> set[str]:
    path = ROOT.joinpath(*module.split("."))
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    text = source.read_text()
    if "import_module" not in text and "uncollected_imports" not in text:
        return set()
    return {
        node.value
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def _layers() -> str:
    """Return the layers of each package, the upper first, and what programs may import."""
    contracts = _contracts()
    texts = []
    for name in contracts.sections():
        contract = contracts[name]
        if contract.get("type") == "layers":
            layers = " > ".join(contract["layers"].split("\n")).strip(" >")
            texts.append(f"{contract['containers'].strip()}: {layers}")
    for program in ("workers", "csctl"):
        (own,) = (
            contract
            for contract in map(contracts.__getitem__, contracts.sections())
            if contract.get("source_modules", "").split() == [program]
            and "ignore_imports" in contract
        )
        allowed = re.findall(r"-> appliance\.(\w+)", own["ignore_imports"])
        texts.append(f"of appliance, {program} may import: {', '.join(allowed)}")
    return "\n".join(
        textwrap.fill(text, 116, subsequent_indent="  ", break_on_hyphens=False) for text in texts
    )
