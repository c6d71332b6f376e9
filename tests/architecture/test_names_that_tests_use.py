"""Every name that tests, benchmarks and examples take from our modules exists.

Types are not checked there, and much of it runs rarely: without this a module that moves breaks a
benchmark unseen.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OURS = ("appliance", "workers", "csctl", "protos", "tests", "benchmarks")
READERS = ("tests", "benchmarks")
OF_EVERY_MODULE = {"__name__", "__file__", "__doc__", "__path__", "__dict__", "__all__"}


@cache
def file_of(module: str) -> Path | None:
    """Return the file or folder of one of our modules; None if there is none."""
    path = ROOT / module.replace(".", "/")
    for found in (path / "__init__.py", path.with_suffix(".py"), path):
        if found.exists():
            return found
    return None


@cache
def names_of(module: str) -> frozenset[str] | None:
    """Return the names at the top level of a module; None if they are made as it is imported."""
    path = file_of(module)
    assert path is not None
    if path.is_dir():
        return frozenset()
    if path.stem.endswith(("_pb2", "_pb2_grpc")):
        return None
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names.add(node.name)
            case ast.Name(ctx=ast.Store()):
                names.add(node.id)
            case ast.Import() | ast.ImportFrom():
                names |= {(each.asname or each.name).partition(".")[0] for each in node.names}
    return None if "__getattr__" in names else frozenset(names)


def has(module: str, name: str) -> bool:
    names = names_of(module)
    is_known = names is None or name in names or name in OF_EVERY_MODULE
    return is_known or file_of(f"{module}.{name}") is not None


def is_ours(module: str) -> bool:
    return module.partition(".")[0] in OURS


def imported(tree: ast.Module) -> Iterator[tuple[str, str, str]]:
    """Yield the module, the name within it or nothing, and the local name of each import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                if is_ours(each.name) and (each.asname or "." not in each.name):
                    yield each.name, "", each.asname or each.name
                elif is_ours(each.name):
                    yield each.name, "", ""
        elif isinstance(node, ast.ImportFrom) and not node.level and is_ours(node.module or ""):
            for each in node.names:
                yield node.module or "", each.name, each.asname or each.name


def missing_names(tree: ast.Module) -> Iterator[str]:
    modules: dict[str, str] = {}
    for module, name, local in imported(tree):
        if file_of(module) is None:
            yield module
        elif name and not has(module, name):
            yield f"{module}.{name}"
        elif file_of(whole := f"{module}.{name}".rstrip(".")) is not None and local:
            modules[local] = whole
    rebound = {
        node.id if isinstance(node, ast.Name) else node.arg
        for node in ast.walk(tree)
        if isinstance(node, ast.arg) or (isinstance(node, ast.Name) and node.id in modules)
        if isinstance(node, ast.arg) or isinstance(node.ctx, ast.Store)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = modules.get(node.value.id, "")
            if module and node.value.id not in rebound and not has(module, node.attr):
                yield f"{module}.{node.attr}"
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from missing_in_text(node.value)


def missing_in_text(text: str) -> Iterator[str]:
    """Yield a dotted path, as `monkeypatch` and `python -m` take them, that leads nowhere.

    What only begins like one of our packages (appliance.json) is a file's name.
    """
    if not all(part.isidentifier() for part in text.split(".")) or text.count(".") < 2:
        return
    top, package, *rest = text.split(".")
    module = f"{top}.{package}"
    if top not in OURS[:3] or file_of(module) is None:
        return
    for part in rest:
        if file_of(f"{module}.{part}") is None:
            if not has(module, part):
                yield text
            return
        module = f"{module}.{part}"


@pytest.mark.parametrize("top", READERS)
def test_every_name_of_ours_that_is_used_exists(top: str) -> None:
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in (ROOT / top).rglob("*.py")
        for name in missing_names(ast.parse(path.read_text()))
    }
    assert found == set()


def test_a_name_that_is_gone_is_found() -> None:
    text = """
from appliance.core import ids, gone
from appliance.core.ids import JobId, LostId
import appliance.nowhere.at_all
target = "appliance.core.ids.Missing"
ids.Absent
"""
    found = {name.removeprefix("appliance.") for name in missing_names(ast.parse(text))}
    in_core = {"core.gone", "core.ids.Absent", "core.ids.LostId", "core.ids.Missing"}
    assert found == {"nowhere.at_all"} | in_core
