"""The command line of `cslc`."""

import argparse
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from appliance.core.errors import UserError
from appliance.csl.options import CompileOptions
from appliance.csl.releases import ANY, RELEASES

DEFAULT_OUTPUT = "out"
IMPORT_VARIABLE = "CSL_IMPORT_PATH"
"""Directories like those of `--import-path`, behind them, with colons between."""
DEFAULT_EVENTS = 1 << 20
"""Events that a trace of the fabric keeps."""
MAX_EVENTS = 1 << 24
DEFAULT_SECONDS = 1800
DEFAULT_MEBIBYTES = 8192
_MAX_CHANNELS = 16
"""Releases of the language; what 2.10 removed is refused by it alone."""
_VERSION = "cslc of the open Wafer-Scale Cluster appliance, for CSL of SDK 1.1 to 2.10"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """The command line of `cslc`.

    Attributes:
        main: The file with the layout.
        output: The directory that is written.
        options: What the compiler is told.
        json_path: A copy of `out.json` goes here; None for none.
        trace_events: Events that a trace of each run keeps; 0 for no trace.
        max_seconds: Most processor time that the compile may take.
        is_verbose: Whether to say what is written.
    """

    main: Path
    output: Path
    options: CompileOptions
    json_path: Path | None = None
    trace_events: int = 0
    max_seconds: int = DEFAULT_SECONDS
    is_verbose: bool = False


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Raise instead of ending the process."""
        raise UserError(message[:1].upper() + message[1:] + ".", hint="See cslc --help.")


def parse(argv: Sequence[str]) -> Arguments:
    """Read a command line.

    Raises:
        UserError: An option is unknown or has no such value.
    """
    found = _parser().parse_args(argv)
    output = Path(found.output)
    json_path = found.output_json
    return Arguments(
        main=Path(found.file),
        output=output,
        options=_options(found),
        json_path=None if json_path is None else Path(json_path or output / "out.json"),
        trace_events=_events(found.fabric_trace),
        max_seconds=_positive(found.max_seconds, "--max-seconds"),
        is_verbose=found.verbose,
    )


def _options(found: argparse.Namespace) -> CompileOptions:
    if found.memcpy and not 0 <= found.channels <= _MAX_CHANNELS:
        raise UserError(
            f"--channels is {found.channels}; memcpy has 1 to {_MAX_CHANNELS} I/O channels."
        )
    limits = {
        "max_inlined_iterations": found.max_inlined_iterations,
        "comptime_depth": found.comptime_func_depth_limit,
    }
    return CompileOptions(
        architecture=found.arch,
        dialect=found.sdk_version,
        fabric_dims=_pair(found.fabric_dims, "--fabric-dims") if found.fabric_dims else None,
        fabric_offsets=_pair(found.fabric_offsets, "--fabric-offsets"),
        parameters=_named_values(found.params, "--params"),
        colors=_named_values(found.colors, "--colors"),
        memcpy=found.memcpy,
        channels=max(found.channels, 1) if found.memcpy else 0,
        width_west_buf=_natural(found.width_west_buf, "--width-west-buf"),
        width_east_buf=_natural(found.width_east_buf, "--width-east-buf"),
        import_paths=(*found.import_path, *_import_paths_of_environment()),
        fp16_format=found.fp16_format,
        max_memory_mib=_positive(found.max_memory_mib, "--max-memory-mib"),
        warnings_as_errors=found.warnings_as_errors,
        **{name: value for name, value in limits.items() if value is not None},
    )


def _import_paths_of_environment() -> tuple[str, ...]:
    paths = os.environ.get(IMPORT_VARIABLE, "").split(os.pathsep)
    return tuple(path for path in paths if path)


def _natural(number: int, option: str) -> int:
    if number < 0:
        raise UserError(f"{option} is {number}; it cannot be below 0.")
    return number


def _positive(number: int, option: str) -> int:
    if not 1 <= number <= 1 << 30:
        raise UserError(f"{option} is {number}; it is a number from 1 to {1 << 30}.")
    return number


def _events(number: int) -> int:
    if not 0 <= number <= MAX_EVENTS:
        raise UserError(f"--fabric-trace is {number}; a trace keeps 1 to {MAX_EVENTS} events.")
    return number


def _pair(text: str, option: str) -> tuple[int, int]:
    first, comma, second = text.partition(",")
    if not comma or not first.strip().isdecimal() or not second.strip().isdecimal():
        raise UserError(f"{option} is {text!r}; it is two numbers, as in {option}=8,3.")
    return int(first), int(second)


def _named_values(texts: Sequence[str], option: str) -> tuple[tuple[str, int], ...]:
    """Parse `name:value,name:value`; later options add to earlier ones."""
    found: dict[str, int] = {}
    for entry in (each.strip() for text in texts for each in text.split(",")):
        if not entry:
            continue
        name, colon, value = (part.strip() for part in entry.partition(":"))
        if not colon or not _NAME.fullmatch(name):
            raise UserError(f"{option} has {entry!r}; it lists name:value, as in {option}=width:4.")
        try:
            number = int(value, 0)
        except ValueError:
            number = -1
        if number < 0:
            raise UserError(f"{option} gives {name} the value {value!r}; values are integers >= 0.")
        if found.get(name, number) != number:
            raise UserError(f"{option} gives {name} two values, {found[name]} and {number}.")
        found[name] = number
    return tuple(found.items())


def _release(text: str) -> str:
    """Return a release as the language names it: 1.4.0 is 1.4."""
    return ".".join(text.split(".")[:2])


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="cslc", description="Compile a CSL program.", allow_abbrev=False)
    add = parser.add_argument
    add("file", help="CSL file with the program's layout")
    add("-o", dest="output", default=DEFAULT_OUTPUT, help="output directory (default: out)")
    add("--arch", choices=("wse2", "wse3"), default="wse2", help="architecture (default: wse2)")
    add("--fabric-dims", metavar="W,H", help="size of the fabric")
    add("--fabric-offsets", metavar="X,Y", default="0,0", help="where the program's corner lies")
    add("--params", action="append", default=[], metavar="NAME:N,...", help="layout parameters")
    add("--colors", action="append", default=[], metavar="NAME:N,...", help="colors of the layout")
    add("--memcpy", action="store_true", help="connect the host by memcpy")
    add("--channels", type=int, default=0, metavar="N", help="I/O channels of memcpy, 1 to 16")
    add("--width-west-buf", type=int, default=0, metavar="N", help="columns of input buffer")
    add("--width-east-buf", type=int, default=0, metavar="N", help="columns of output buffer")
    add("--import-path", action="append", default=[], metavar="DIR", help="where else files are")
    add("--fp16-format", choices=("f16", "cb16", "bf16"), default="f16", help="16-bit float format")
    add(
        "--sdk-version", type=_release, choices=(*RELEASES, ANY), default=ANY,
        help="language version",
    )  # fmt: skip
    add("--version", action="version", version=_VERSION)
    add("--output-json", nargs="?", const="", metavar="PATH", help="write out.json there, too")
    add(
        "--fabric-trace",
        type=int,
        nargs="?",
        const=DEFAULT_EVENTS,
        default=0,
        metavar="N",
        help="have each run traced; the latest N events are kept",
    )
    add("--out-routes", action="store_true", help="accepted; routes are always in the output")
    add("--max-inlined-iterations", type=int, metavar="N", help="most turns of an unrolled loop")
    add("--comptime-func-depth-limit", type=int, metavar="N", help="most nested comptime calls")
    add("--max-seconds", type=int, metavar="N", default=DEFAULT_SECONDS, help="processor time")
    add("--max-memory-mib", type=int, metavar="N", default=DEFAULT_MEBIBYTES, help="memory")
    add("--max-parallelism", type=int, metavar="N", help="accepted; one thread compiles")
    add("--link-section-start-address-bytes", metavar="N", help="accepted; addresses are ours")
    add("-g0", dest="is_bare", action="store_true", help="accepted; symbols are always kept")
    add("--warnings-as-errors", action="store_true", help="let no warning pass")
    add("--verbose", action="store_true", help="say what is written")
    return parser
