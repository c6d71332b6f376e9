"""The public example programs, if CSL_EXAMPLES names checkouts of them (`:` between several).

Every file parses, and what every command file compiles gives a program, out.json and
out_rpc.json. None of the programs' text is kept here.
"""

import json
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.csl.artifact import out_json, out_rpc_json
from appliance.csl.compiler import compile_program
from appliance.csl.options import CompileOptions
from appliance.csl.program import decode, encode
from appliance.csl.sources import Source
from appliance.csl.syntax import parse

ROOTS = [Path(root) for root in os.environ.get("CSL_EXAMPLES", "").split(":") if root]
FILES = sorted(path for root in ROOTS for path in root.rglob("*.csl"))
COMMANDS = sorted(path for root in ROOTS for path in root.rglob("commands_wse*.sh"))

pytestmark = pytest.mark.skipif(not ROOTS, reason="CSL_EXAMPLES names no checkout")


class _Directory:
    def __init__(self, root: Path) -> None:
        self.root = root

    def read(self, path: str) -> str | None:
        file = self.root / path
        return file.read_text() if file.is_file() else None


def _compilations(path: Path) -> Iterator[list[str]]:
    """The arguments of each call of the compiler in a command file."""
    variables: dict[str, str] = {}
    for line in path.read_text().replace("\\\n", " ").splitlines():
        assignment = re.fullmatch(r"(\w+)=(\S+)", line.strip())
        if assignment:
            variables[assignment[1]] = assignment[2]
        if line.strip().startswith("cslc"):
            text = re.sub(r"\$\{?(\w+)\}?", lambda found: variables.get(found[1], ""), line)
            yield shlex.split(text)[1:]


def _pair(text: str) -> tuple[int, int]:
    first, second = text.split(",")
    return int(first), int(second)


def _values(arguments: list[str], name: str) -> tuple[tuple[str, int], ...]:
    found: list[tuple[str, int]] = []
    for argument in arguments:
        if argument.startswith(f"--{name}="):
            for item in argument.split("=", 1)[1].split(","):
                if item:
                    key, value = item.split(":")
                    found.append((key, int(value)))
    return tuple(found)


def _joined(arguments: list[str]) -> list[str]:
    """Options with their values as `--name=value`."""
    words: list[str] = []
    rest = iter(arguments)
    for word in rest:
        has_value = word.startswith("-") and "=" not in word and word not in ("--memcpy",)
        words.append(f"{word}={next(rest)}" if has_value else word)
    return words


def _options(arguments: list[str]) -> tuple[str, CompileOptions]:
    words = _joined(arguments)
    flags = dict(word.split("=", 1) for word in words if word.startswith("-") and "=" in word)
    (main,) = [word for word in words if not word.startswith("-")]
    return os.path.normpath(main), CompileOptions(
        architecture=flags.get("--arch", "wse2"),
        fabric_dims=_pair(flags["--fabric-dims"]),
        fabric_offsets=_pair(flags["--fabric-offsets"]),
        parameters=_values(words, "params"),
        colors=_values(words, "colors"),
        memcpy="--memcpy" in words,
        channels=int(flags.get("--channels", "1")),
        width_west_buf=int(flags.get("--width-west-buf", "0")),
        width_east_buf=int(flags.get("--width-east-buf", "0")),
        import_paths=tuple(w.split("=", 1)[1] for w in words if w.startswith("--import-path=")),
    )


@pytest.mark.parametrize("path", FILES, ids=str)
def test_every_file_parses(path: Path) -> None:
    _, errors = parse(Source(str(path), path.read_text(), 0))
    assert [error.render() for error in errors] == []


@pytest.mark.parametrize("path", COMMANDS, ids=str)
def test_every_command_file_compiles(path: Path) -> None:
    for arguments in _compilations(path):
        main, options = _options(arguments)
        compilation = compile_program(main, options, _Directory(path.parent))
        assert compilation.program is not None, compilation.render()
        assert json.loads(out_json(compilation.program))["params"] is not None
        assert json.loads(out_rpc_json(compilation.program))["rpc_symbols"] is not None
        assert decode(encode(compilation.program)) == compilation.program
