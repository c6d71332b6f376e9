"""A cycle of a trace as SVG: what the dashboard's Fabric page shows, without a browser."""

from collections.abc import Iterator
from dataclasses import dataclass
from xml.sax.saxutils import escape

import numpy as np
from numpy.typing import NDArray

from appliance.csl.program import NO_CODE
from appliance.fabric.bytecode import NUM_COLORS, TraceKind
from appliance.fabric.tracing.trace import Trace
from appliance.fabric.tracing.view import Measure, bars, line_of, measured, moment, used_ports

_COLORS = (
    *("#e8642c", "#0072b2", "#009e73", "#cc79a7", "#56b4e9", "#d5a000", "#8a6fd1", "#7a8594"),
    *("#b23a00", "#4fa3d9", "#4fd1a8", "#8f3c6b", "#1c7fb5", "#9a7400", "#5a3fa8", "#4c5664"),
    *("#ff9a6b", "#00466e", "#00614a", "#f0b3d2", "#a8dcf8", "#ffd75e", "#c0aef0", "#b3bcc8"),
)
_STEPS = ((-1, 0), (1, 0), (0, 1), (0, -1))
_STOPS = np.array(
    [
        *((0, 0, 4), (40, 11, 84), (101, 21, 110), (159, 42, 99)),
        *((212, 72, 66), (245, 125, 21), (250, 193, 39), (252, 255, 164)),
    ],
    dtype=float,
)
"""Of "inferno" (matplotlib, CC0)."""
_SIDE = 960
_TOP = 56
_ROW = 22
_LEFT = 110
_RAMP = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureRequest:
    """What a picture is to show.

    Attributes:
        color: The color whose routes and wavelets are shown; None for all.
        heat: What the heat map tells.
        span: Cycles up to this one that it tells of; 0 for the whole trace.
        pe: A PE whose tasks are shown below on a time line; None for none.
    """

    cycle: int
    color: int | None = None
    heat: Measure = Measure.WAITING
    span: int = 100
    pe: int | None = None

    def shows(self, color: int) -> bool:
        """Whether a color is shown."""
        return self.color is None or self.color == color


def svg(trace: Trace, request: PictureRequest) -> str:
    """Return a picture."""
    cell = min(96.0, max(2.0, _SIDE / trace.width))
    width = max(trace.width * cell, 480.0)
    grid_height = trace.height * cell
    lines = [*_time_line(trace, request, width)] if request.pe is not None else []
    height = _TOP + grid_height + 60 + (_ROW * 13 if lines else 0)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        'font-family="sans-serif" font-size="13">',
        '<rect width="100%" height="100%" fill="white"/>',
        *_title(trace, request),
        f'<g transform="translate(0 {_TOP})">',
        *_ground(trace, cell),
        *_heat(trace, request, cell),
        *_routes(trace, request, cell),
        *_moving(trace, request, cell),
        "</g>",
        *_legend(trace, request, _TOP + grid_height + 22),
        f'<g transform="translate(0 {_TOP + grid_height + 60:g})">' if lines else "",
        *lines,
        "</g>" if lines else "",
        "</svg>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _title(trace: Trace, request: PictureRequest) -> Iterator[str]:
    where = f"{trace.width} x {trace.height} PEs ({trace.header['architecture']})"
    yield f'<text x="8" y="20">{where}, simulated cycle {request.cycle:,}</text>'
    end = str(trace.header["end"]).partition("\n")[0] or "The run was stopped."
    yield f'<text x="8" y="40" fill="#566173">{escape(end[:140])}</text>'


def _place(trace: Trace, pe: int, cell: float) -> tuple[float, float]:
    return pe % trace.width * cell, pe // trace.width * cell


def _ground(trace: Trace, cell: float) -> Iterator[str]:
    inset = cell * 0.08
    side = cell - 2 * inset
    yield '<g fill="#e3e8ef">'
    for pe, code in enumerate(trace.grid("code").tolist()):
        if code != NO_CODE:
            x, y = _place(trace, pe, cell)
            yield f'<rect x="{x + inset:g}" y="{y + inset:g}" width="{side:g}" height="{side:g}"/>'
    yield "</g>"


def _heat(trace: Trace, request: PictureRequest, cell: float) -> Iterator[str]:
    values, most = _heat_values(trace, request)
    if most <= 0:
        return
    for pe in np.flatnonzero(values).tolist():
        x, y = _place(trace, pe, cell)
        fill = _shade(values[pe] / most)
        yield (
            f'<rect x="{x:g}" y="{y:g}" width="{cell:g}" height="{cell:g}" fill="{fill}" '
            'fill-opacity="0.85"/>'
        )


def _heat_values(trace: Trace, request: PictureRequest) -> tuple[NDArray[np.float64], float]:
    first = request.cycle - request.span + 1 if request.span else 0
    last = request.cycle if request.span else (1 << 62)
    values = measured(trace, request.heat, first, last)
    return values, float(values.max(initial=0.0))


def _shade(share: float) -> str:
    place = min(max(share, 0.0), 1.0) * (len(_STOPS) - 1)
    index = min(int(place), len(_STOPS) - 2)
    mixed = _STOPS[index] + (place - index) * (_STOPS[index + 1] - _STOPS[index])
    return f"rgb({','.join(str(round(channel)) for channel in mixed.tolist())})"


def _shift(request: PictureRequest, color: int, cell: float) -> float:
    """Lines of several colors lie beside each other."""
    return 0.0 if request.color is not None else (color % 8 - 3.5) * cell * 0.06


def _routes(trace: Trace, request: PictureRequest, cell: float) -> Iterator[str]:
    used = used_ports(trace)
    routing = trace.grid("routing").tolist()
    routes = [{each["color"]: each for each in entry} for entry in trace.header["routes"]]
    for color in filter(request.shows, range(NUM_COLORS)):
        thin: list[str] = []
        thick: list[str] = []
        middle = cell / 2 + _shift(request, color, cell)
        for pe, number in enumerate(routing):
            taken = int(used[pe, color])
            wanted = int(routes[number].get(color, {"tx": 0})["tx"]) if number < len(routes) else 0
            x, y = _place(trace, pe, cell)
            for port, (right, down) in enumerate(_STEPS):
                if (taken | wanted) >> port & 1:
                    path = thick if taken >> port & 1 else thin
                    start = f"M{x + middle:g} {y + middle:g}"
                    path.append(f"{start}l{right * cell:g} {down * cell:g}")
            if (taken | wanted) & _RAMP:
                dot, side = x + middle - cell * 0.06, cell * 0.12
                path = thick if taken & _RAMP else thin
                path.append(f"M{dot:g} {y + middle - cell * 0.06:g}h{side:g}v{side:g}h{-side:g}z")
        yield from _stroke(thin, color, cell * 0.02, 0.35)
        yield from _stroke(thick, color, cell * 0.035, 0.75)


def _stroke(path: list[str], color: int, width: float, opacity: float) -> Iterator[str]:
    if path:
        style = f'stroke="{_COLORS[color]}" stroke-width="{max(width, 0.6):g}"'
        yield f'<path d="{"".join(path)}" fill="none" {style} stroke-opacity="{opacity:g}"/>'


def _moving(trace: Trace, request: PictureRequest, cell: float) -> Iterator[str]:
    now = moment(trace, request.cycle)
    inset = cell * 0.08
    side, bar = cell - 2 * inset, max(1.0, cell * 0.1)
    for pe in np.flatnonzero(now.working).tolist():
        x, y = _place(trace, pe, cell)
        yield _bar(x + inset, y + inset, side, bar, "#17733a")
    for pe in np.flatnonzero(now.waiting).tolist():
        x, y = _place(trace, pe, cell)
        share = min(int(now.waiting[pe]), 8) / 8
        yield _bar(x + inset, y + cell - inset - bar, side * share, bar, "#b3261e")
    for event in now.moving:
        if request.shows(int(event["color"])):
            yield from _wavelet(trace, request, event, cell)


def _bar(x: float, y: float, width: float, height: float, fill: str) -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="{fill}"/>'


def _wavelet(trace: Trace, request: PictureRequest, event: np.void, cell: float) -> Iterator[str]:
    """Yield a square half-way to each neighbour, and one in the PE for the ramp."""
    color, ports = int(event["color"]) % NUM_COLORS, int(event["ports"])
    x, y = _place(trace, int(event["pe"]), cell)
    middle, size = cell / 2 + _shift(request, color, cell), max(1.5, min(cell * 0.22, 12))
    ways = [(0, 0)]
    if event["kind"] == TraceKind.HOP:
        ways = [step for port, step in enumerate(_STEPS) if ports >> port & 1]
        ways += [(0, 0)] * bool(ports & _RAMP)
    data = f"color {color}, data {int(event['a']):#010x}"
    for right, down in ways:
        left, top = (
            x + middle + right * cell / 2 - size / 2,
            y + middle + down * cell / 2 - size / 2,
        )
        yield (
            f'<rect x="{left:g}" y="{top:g}" width="{size:g}" height="{size:g}" '
            f'fill="{_COLORS[color]}" stroke="#18202b" stroke-width="0.5">'
            f"<title>{data}</title></rect>"
        )


def _legend(trace: Trace, request: PictureRequest, y: float) -> Iterator[str]:
    seen = set(np.unique(trace.events["color"]).tolist())
    seen |= {each["color"] for entry in trace.header["routes"] for each in entry if each["tx"]}
    entries = [(f"color {each}", _COLORS[each]) for each in sorted(seen) if each < NUM_COLORS]
    entries += [("a task runs", "#17733a"), ("wavelets wait", "#b3261e")]
    x = 8.0
    for words, fill in entries:
        yield f'<rect x="{x:g}" y="{y - 10:g}" width="10" height="10" fill="{fill}"/>'
        yield f'<text x="{x + 14:g}" y="{y:g}">{words}</text>'
        x += 24 + 7 * len(words)
    most = _heat_values(trace, request)[1]
    if most > 0:
        over = f"last {request.span:,} cycles" if request.span else "all cycles"
        yield f'<text x="8" y="{y + 20:g}">heat: {request.heat.value}, {over}, most {most:g}</text>'


def _time_line(trace: Trace, request: PictureRequest, width: float) -> Iterator[str]:
    """Yield the tasks of a PE around the cycle."""
    assert request.pe is not None
    span = max(request.span, 50) if request.span else 1 << 62
    first = max(int(trace.events["cycle"][0]), request.cycle - span)
    last = max(min(int(trace.events["cycle"][-1]), request.cycle + span), first + 1)
    shown = [each for each in bars(trace, request.pe) if each.end >= first and each.start <= last]
    tracks = sorted({0, 1} | {each.track for each in shown})
    names = {each.track: each.track_name for each in shown} | {0: "task", 1: "main thread"}
    scale = (width - _LEFT - 8) / (last - first)
    place = f"({request.pe % trace.width}, {request.pe // trace.width})"
    yield f'<text x="8" y="14">PE {place}, cycles {first:,} to {last:,}</text>'
    for row, track in enumerate(tracks):
        yield f'<text x="8" y="{(row + 1) * _ROW + 14}" fill="#566173">{names[track]}</text>'
    for each in shown:
        start, end = max(each.start, first), min(each.end, last)
        line = line_of(trace, request.pe, each.counter)
        words = escape(f"{line.function} {line.place} {line.text}: {each.start} to {each.end}")
        yield (
            f'<rect x="{_LEFT + (start - first) * scale:g}" '
            f'y="{(tracks.index(each.track) + 1) * _ROW + 2}" '
            f'width="{max((end - start) * scale, 1):g}" height="{_ROW - 5}" '
            f'fill="{_COLORS[(each.counter + 3 * each.track) % 7]}"><title>{words}</title></rect>'
        )
    at = _LEFT + (min(max(request.cycle, first), last) - first) * scale
    low = (len(tracks) + 1) * _ROW
    yield f'<path d="M{at:g} {_ROW}V{low}" stroke="#b3261e" stroke-width="2"/>'
