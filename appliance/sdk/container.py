"""A compiled program as a directory.

    out.json               values of the parameters and colors that were given
    bin/out_rpc.json       what the host may read, write and call
    bin/program.bin        the whole program (`appliance.csl.program.encode`)
    bin/out_X_Y.elf        the symbols of the code that PE (X, Y) is the first to run, as JSON
    east/, west/           the buffer columns of memcpy: their widths
    generated/files.json   the source files
    generated/sources.json what was in them, for traces of the fabric
    generated/trace.json   events that a trace is to keep, if one was asked for

Everything is written beside the directory and then takes its place, so that a compile which fails
leaves what was there.
"""

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from appliance.core.errors import UserError
from appliance.csl.artifact import out_json, out_rpc_json
from appliance.csl.program import (
    NO_CODE,
    CodeClass,
    Program,
    ProgramFormatError,
    decode,
    encode,
)
from appliance.sdk.symbols import RPC_FILE

PROGRAM_FILE = "bin/program.bin"
PARAMETERS_FILE = "out.json"
SOURCES_FILE = "generated/sources.json"
TRACE_FILE = "generated/trace.json"


def write_container(
    program: Program,
    directory: Path,
    *,
    sources: Mapping[str, str] | None = None,
    trace_events: int = 0,
) -> tuple[str, ...]:
    """Write a program, replacing what the directory holds.

    Args:
        directory: Where to.
        sources: Text of its source files by name.
        trace_events: Events that a trace of each run keeps; 0 for no trace.

    Returns:
        What was written, relative to the directory.

    Raises:
        UserError: The directory cannot be written.
    """
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent))
        try:
            made.chmod(0o755)
            names = _write(program, made)
            names += _write_for_traces(made, sources or {}, trace_events)
            if directory.exists():
                shutil.rmtree(directory)
            made.rename(directory)
        finally:
            shutil.rmtree(made, ignore_errors=True)
    except OSError as error:
        raise UserError(f"Output directory {directory} cannot be written: {error}.") from error
    return names


def read_program(directory: Path) -> Program:
    """Read the program back.

    Raises:
        UserError: The directory holds none, or one that another version wrote.
    """
    path = directory / PROGRAM_FILE
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(
            f"{directory} holds no compiled program: {path}: {error.strerror}.",
            hint="Compile it with cslc -o.",
        ) from error
    try:
        return decode(data)
    except ProgramFormatError as error:
        raise UserError(
            f"{path} is not a program that this version can run: {error}.",
            hint="Compile it again with this version's cslc.",
        ) from error


def _write(program: Program, directory: Path) -> tuple[str, ...]:
    names: list[str] = []

    def put(name: str, content: bytes) -> None:
        path = directory / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        names.append(name)

    put(PARAMETERS_FILE, out_json(program).encode())
    put(RPC_FILE, out_rpc_json(program).encode())
    put(PROGRAM_FILE, encode(program))
    for number, (x, y) in _first_tiles(program):
        put(f"bin/out_{x}_{y}.elf", _json(_class_table(program.classes[number])))
    put("west/columns.json", _json({"columns": program.width_west_buf}))
    put("east/columns.json", _json({"columns": program.width_east_buf}))
    put("generated/files.json", _json({"files": list(program.files)}))
    return tuple(names)


def _write_for_traces(
    directory: Path, sources: Mapping[str, str], trace_events: int
) -> tuple[str, ...]:
    (directory / SOURCES_FILE).write_bytes(_json(sources))
    if not trace_events:
        return (SOURCES_FILE,)
    (directory / TRACE_FILE).write_bytes(_json({"events": trace_events}))
    return (SOURCES_FILE, TRACE_FILE)


# `Any`: values of a JSON object.
def _class_table(code: CodeClass) -> dict[str, Any]:
    symbols = [
        {"name": variable.name, "address": variable.address, "bytes": variable.num_bytes}
        for variable in code.variables
    ]
    return {"file": code.file, "parameters": code.parameters, "symbols": symbols}


def _first_tiles(program: Program) -> Iterator[tuple[int, tuple[int, int]]]:
    """Yield each code class with the first PE that runs it, row by row."""
    grid = program.grid
    codes = memoryview(grid.code).cast("I")
    seen = {NO_CODE}
    for at, number in enumerate(codes):
        if number not in seen:
            seen.add(number)
            yield number, (at % grid.width, at // grid.width)
            if len(seen) > len(program.classes):
                return


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, indent=2).encode() + b"\n"
