"""What has made tests fail on a busy machine though nothing was wrong is written down once."""

import ast
import tomllib
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parents[1]
PROCESSES, PORTS = TESTS / "support" / "processes.py", TESTS / "support" / "ports.py"

OF_PROCESSES = {"cmdline", "environ", "cwd", "name", "status", "open_files"}
"""What psutil reads of a process, which may end, or call exec, at that moment."""
SHORTEST_CLIENT_SECONDS = 60.0
"""Deadlines in `wait_for` and `wait_until` guard against hanging, and nothing else."""


@cache
def nodes() -> tuple[tuple[Path, ast.Call | ast.FunctionDef], ...]:
    """Return every call and every function of all tests, with its file."""
    return tuple(
        (path, node)
        for path in sorted(TESTS.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call | ast.FunctionDef)
    )


def calls() -> list[tuple[Path, ast.Call]]:
    return [(path, node) for path, node in nodes() if isinstance(node, ast.Call)]


def where(path: Path, node: ast.AST) -> str:
    return f"{path.relative_to(TESTS)}:{node.lineno}"


def is_method(node: ast.Call, names: set[str]) -> bool:
    """Return whether a method of one of these names is called without arguments."""
    return isinstance(node.func, ast.Attribute) and node.func.attr in names and not node.args


def is_own(node: ast.Call) -> bool:
    """Return whether it is `Path.cwd()`, which asks for the directory of the own process."""
    return ast.unparse(node.func) == "Path.cwd"


def test_processes_that_may_end_are_looked_at_in_one_place():
    found = [
        where(path, node)
        for path, node in calls()
        if path != PROCESSES and is_method(node, OF_PROCESSES) and not is_own(node)
    ]
    assert found == [], "tests.support.processes reads these of a process that may have ended"


def test_ports_are_chosen_in_one_place():
    """Port 0 is for whoever keeps the socket; to close it and use its number later is a race."""
    found = [
        where(path, node)
        for path, node in nodes()
        if isinstance(node, ast.FunctionDef)
        and node.name.startswith(("free_port", "_free_po"))
        and path != PORTS
    ]
    assert found == [], "tests.support.ports keeps a port from everybody else"


def test_what_is_waited_for_has_time():
    short = []
    for path, node in calls():
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        limits = [each.value for each in node.keywords if each.arg == "seconds"]
        if name not in ("wait_for", "wait_until") or not limits:
            continue
        limit = limits[0]
        if isinstance(limit, ast.Constant) and limit.value < SHORTEST_CLIENT_SECONDS:
            short.append(where(path, node))
    assert short == [], "a busy machine takes half a minute to start one program"


def test_no_test_has_less_time_than_all_others():
    settings = tomllib.loads((TESTS.parent / "pyproject.toml").read_text())
    least = settings["tool"]["pytest"]["ini_options"]["timeout"]
    short = [
        where(path, node)
        for path, node in calls()
        if isinstance(node.func, ast.Attribute)
        and node.func.attr == "timeout"
        and ast.unparse(node.func) == "pytest.mark.timeout"
        and ast.literal_eval(node.args[0]) < least
    ]
    assert short == [], "a limit of its own is for a test that needs more"
