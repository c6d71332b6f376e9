"""`cs_trace`: look at a trace of the simulated fabric without a browser."""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from appliance.core.errors import UserError

if TYPE_CHECKING:
    from appliance.fabric.tracing.trace import Trace


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Raise instead of ending the process."""
        raise UserError(message[:1].upper() + message[1:] + ".", hint="See cs_trace --help.")


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line; 2 for a wrong command, or a trace that cannot be read."""
    try:
        wanted = _parser().parse_args(sys.argv[1:] if argv is None else argv)
        text = _MADE[wanted.what](_read(Path(wanted.trace)), wanted)
        _write(text, wanted.output)
    except UserError as error:
        sys.stderr.write(f"cs_trace: error: {error}\n")
        return error.exit_code
    except (KeyboardInterrupt, BrokenPipeError):
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="cs_trace", description="Look at a trace of the simulated fabric.")
    whats = parser.add_subparsers(dest="what", required=True, parser_class=_Parser)
    about = whats.add_parser("info", help="say what is in it, and what could not go on")
    picture = whats.add_parser("svg", help="draw a cycle: routes, wavelets, heat, a PE's tasks")
    perfetto = whats.add_parser("perfetto", help="write it in Chrome's trace format")
    log = whats.add_parser("log", help="write every event as a line: instructions and wavelets")
    profile = whats.add_parser("profile", help="say which source lines take how many cycles")
    for each in (about, picture, perfetto, log, profile):
        each.add_argument("trace", help="the file")
        each.add_argument("-o", dest="output", metavar="FILE", help="default: standard output")
    add = picture.add_argument
    add("--cycle", type=int, metavar="N", help="the cycle (default: the busiest one)")
    add("--color", type=int, metavar="N", help="one color alone")
    add(
        "--heat",
        choices=("none", "waiting", "traffic", "occupancy", "work"),
        default="waiting",
        help="what the heat map tells (default: cycles that wavelets have waited)",
    )
    add("--span", type=int, default=100, metavar="N", help="over N cycles; 0 for all (default 100)")
    for each in (picture, perfetto):
        each.add_argument("--pe", metavar="X,Y", help="the tasks of this PE")
    for each in (log, profile):
        each.add_argument("--pe", metavar="X,Y", help="this PE alone")
    log.add_argument("--color", type=int, metavar="N", help="wavelets of one color alone")
    profile.add_argument(
        "--lines", type=int, default=30, metavar="N", help="the N hottest lines (default 30)"
    )
    return parser


def _read(path: Path) -> "Trace":
    # Imported here, so that --help and a wrong command line answer at once.
    from appliance.fabric.tracing.trace import read_trace  # noqa: PLC0415
    from appliance.wire.fabric_traces import TraceFile  # noqa: PLC0415

    try:
        return read_trace(TraceFile(path))
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from error


def _write(text: str, output: str | None) -> None:
    if output is None:
        sys.stdout.write(text)
        return
    try:
        Path(output).write_text(text)
    except OSError as error:
        raise UserError(f"{output} cannot be written: {error.strerror}.") from error


def _pe(text: str | None, trace: "Trace") -> int | None:
    if text is None:
        return None
    x, comma, y = text.partition(",")
    if not comma or not x.strip().isdecimal() or not y.strip().isdecimal():
        raise UserError(f"--pe is {text!r}; it is two numbers, as in --pe=3,0.")
    if int(x) >= trace.width or int(y) >= trace.height:
        raise UserError(f"There is no PE ({x}, {y}): the grid has {trace.width} x {trace.height}.")
    return int(y) * trace.width + int(x)


def _info(trace: "Trace", _: argparse.Namespace) -> str:
    return "\n".join(_lines(trace)) + "\n"


def _lines(trace: "Trace") -> Iterator[str]:
    header, cycles = trace.header, trace.events["cycle"]
    yield f"grid     {trace.width} x {trace.height} PEs, {header['architecture']}"
    if len(cycles):
        yield f"cycles   {int(cycles[0]):,} to {int(cycles[-1]):,} (simulated)"
    yield f"events   {len(cycles):,}, and {header['num_lost']:,} earlier ones that were not kept"
    yield f"end      {header['end'] or 'stopped'}"
    for each in header["waiting"]:
        where = f" ({each['where']})" if each["where"] else ""
        yield f"waiting  PE ({each['x']}, {each['y']}): {each['what']}{where}"


def _svg(trace: "Trace", wanted: argparse.Namespace) -> str:
    from appliance.fabric.tracing.picture import PictureRequest, svg  # noqa: PLC0415 - as in `_read`
    from appliance.fabric.tracing.view import Measure, busiest_cycle  # noqa: PLC0415

    if not len(trace.events):
        raise UserError("The trace has no events: nothing happened on the fabric.")
    if wanted.span < 0:
        raise UserError(f"--span is {wanted.span}; it cannot be below 0.")
    _check_color(wanted.color)
    cycle = busiest_cycle(trace) if wanted.cycle is None else _cycle(wanted.cycle, trace)
    request = PictureRequest(
        cycle=cycle,
        color=wanted.color,
        heat=Measure(wanted.heat),
        span=wanted.span,
        pe=_pe(wanted.pe, trace),
    )
    return svg(trace, request)


def _cycle(cycle: int, trace: "Trace") -> int:
    first, last = int(trace.events["cycle"][0]), int(trace.events["cycle"][-1])
    if not first <= cycle <= last:
        raise UserError(
            f"The trace has nothing of cycle {cycle:,}: it goes from {first:,} to {last:,}.",
            hint="Leave out --cycle for the busiest one.",
        )
    return cycle


def _perfetto(trace: "Trace", wanted: argparse.Namespace) -> str:
    from appliance.fabric.tracing.perfetto import chrome_trace  # noqa: PLC0415 - as in `_read`

    pe = _pe(wanted.pe, trace)
    return json.dumps(chrome_trace(trace, pes=() if pe is None else (pe,))) + "\n"


def _log(trace: "Trace", wanted: argparse.Namespace) -> str:
    from appliance.fabric.tracing.event_log import log_lines  # noqa: PLC0415 - as in `_read`

    _check_color(wanted.color)
    pe = _pe(wanted.pe, trace)
    lines = log_lines(trace, pes=() if pe is None else (pe,), color=wanted.color)
    return "".join(f"{line}\n" for line in lines)


def _check_color(color: int | None) -> None:
    from appliance.fabric.bytecode import NUM_COLORS  # noqa: PLC0415 - as in `_read`

    if color is not None and not 0 <= color < NUM_COLORS:
        raise UserError(f"There is no color {color}; colors are 0 to {NUM_COLORS - 1}.")


def _profile(trace: "Trace", wanted: argparse.Namespace) -> str:
    from appliance.fabric.tracing.line_profile import (  # noqa: PLC0415 - as in `_read`
        profile,
        profile_lines,
    )

    if wanted.lines < 1:
        raise UserError(f"--lines is {wanted.lines}; it is at least 1.")
    pe = _pe(wanted.pe, trace)
    costs = profile(trace, pes=() if pe is None else (pe,))
    lines = [*profile_lines(costs, wanted.lines)]
    if lost := trace.header["num_lost"]:
        lines.append(f"{lost:,} earlier events were not kept, and are not counted.")
    return "".join(f"{line}\n" for line in lines)


_MADE = {
    "info": _info,
    "svg": _svg,
    "perfetto": _perfetto,
    "log": _log,
    "profile": _profile,
}


if __name__ == "__main__":
    sys.exit(main())
