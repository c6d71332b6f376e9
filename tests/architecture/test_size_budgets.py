"""What a reader can hold: the length of files and functions, of folders and of classes.

There is no list of exceptions: what grows beyond a limit is divided along its meaning.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PRODUCT = ("appliance", "workers", "csctl")
MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 80
MAX_CODE_LINES = 60
"""Of a function without its signature and docstring: a command has a line for each option."""
MAX_MODULES = 15
MAX_METHODS = 25
MAX_COLLABORATORS = 5


def _sources(*packages: str) -> Iterator[Path]:
    for package in packages:
        for path in sorted((ROOT / package).rglob("*.py")):
            if not path.stem.endswith(("_pb2", "_pb2_grpc")):
                yield path


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


FOLDERS = sorted({path.parent for path in _sources(*PRODUCT)})


@pytest.mark.parametrize("package", [*PRODUCT, "protos", "tests", "examples", "benchmarks"])
def test_files_and_functions_stay_within_budget(package: str) -> None:
    found = [f"{_name(path)}: {excess}" for path in _sources(package) for excess in _excesses(path)]
    assert found == []


def _excesses(path: Path) -> Iterator[str]:
    text = path.read_text()
    num_file_lines = len(text.splitlines())
    if num_file_lines > MAX_FILE_LINES:
        yield f"{num_file_lines} lines"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            end = node.end_lineno or node.lineno
            num_lines = end - node.lineno + 1
            if num_lines > MAX_FUNCTION_LINES:
                yield f"{node.name} has {num_lines} lines"
            code = node.body[ast.get_docstring(node) is not None :]
            num_code_lines = end - code[0].lineno + 1 if code else 0
            if num_code_lines > MAX_CODE_LINES:
                yield f"{node.name} has {num_code_lines} of code"


@pytest.mark.parametrize("folder", FOLDERS, ids=_name)
def test_a_folder_has_no_more_modules_than_a_listing_shows_at_a_glance(folder: Path) -> None:
    modules = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
    assert len(modules) <= MAX_MODULES


def _num_methods(node: ast.ClassDef) -> int:
    return sum(isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) for each in node.body)


def test_no_class_of_management_or_the_coordinator_has_too_many_methods() -> None:
    found = {
        f"{_name(path)}: {node.name}": _num_methods(node)
        for path in _sources("appliance/management", "appliance/coordinator")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and _num_methods(node) > MAX_METHODS
    }
    assert found == {}


def _is_value(node: ast.ClassDef) -> bool:
    """Whether a class is of values: an enum, or a dataclass but for the bundle of repositories."""
    is_dataclass = any("dataclass" in ast.unparse(each) for each in node.decorator_list)
    is_enum = any(ast.unparse(base).endswith(("Enum", "NamedTuple")) for base in node.bases)
    return (is_dataclass or is_enum) and node.name != "State"


def _collaborators(node: ast.ClassDef, kinds: set[str]) -> list[str]:
    """Return the constructor's parameters that are called: objects of our own, and callables."""
    for each in node.body:
        if isinstance(each, ast.FunctionDef) and each.name == "__init__":
            parameters = (*each.args.args[1:], *each.args.kwonlyargs)
            return [one.arg for one in parameters if kinds & _names(one.annotation)]
    return []


def _names(annotation: ast.expr | None) -> set[str]:
    found = ast.walk(annotation) if annotation is not None else ()
    return {each.id for each in found if isinstance(each, ast.Name)}


def test_no_class_of_management_has_too_many_collaborators() -> None:
    trees = {path: ast.parse(path.read_text()) for path in _sources("appliance")}
    classes = [
        (path, node)
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    ]
    kinds = {"Callable", "KeyOf", "WriteBatched", *(n.name for _, n in classes if not _is_value(n))}
    found = {
        f"{_name(path)}: {node.name}": names
        for path, node in classes
        if path.is_relative_to(ROOT / "appliance/management")
        and len(names := _collaborators(node, kinds)) > MAX_COLLABORATORS
    }
    assert found == {}


def test_the_reconciler_is_read_in_one_sitting() -> None:
    """It moves every job; what it does about jobs, pods, time and the queue is beside it."""
    text = (ROOT / "appliance/management/reconciler/reconciler.py").read_text()
    assert len(text.splitlines()) <= 300
