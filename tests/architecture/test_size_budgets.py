"""No file over 800 lines, no function over 80: what a reader can hold."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAX_FILE_LINES = 800
MAX_FUNCTION_LINES = 80


def _sources() -> Iterator[Path]:
    for package in ("appliance", "workers", "csctl", "protos", "tests", "examples", "benchmarks"):
        for path in sorted((ROOT / package).rglob("*.py")):
            if not path.stem.endswith(("_pb2", "_pb2_grpc")):
                yield path


@pytest.mark.parametrize("path", [*_sources()], ids=lambda path: str(path.relative_to(ROOT)))
def test_files_and_functions_stay_within_budget(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= MAX_FILE_LINES
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            num_lines = (node.end_lineno or node.lineno) - node.lineno + 1
            assert num_lines <= MAX_FUNCTION_LINES, f"{node.name} has {num_lines} lines"
