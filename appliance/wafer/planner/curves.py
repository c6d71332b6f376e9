"""Pictures of an estimate, as SVG text: scaling over systems, and loss over compute.

Text in, text out, so that a command, a page or a notebook can show the same picture. Both axes of
both pictures are logarithmic in x; the scaling picture also in y, where perfect scaling is
straight.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from appliance.wafer.planner.planner import Estimate
from appliance.wafer.planner.scaling_law import compute_optimal_loss, loss_curve

_WIDTH, _HEIGHT = 640, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 78, 24, 48, 62
_BLUE, _ORANGE, _GREY = "#1f5fa8", "#c8641b", "#8a8a8a"

_FACTORS = ((1.0, (1, 2, 3, 4, 5, 6, 8)), (4.0, (1, 2, 5)), (math.inf, (1,)))
"""Labels within a decade of a logarithmic axis, by the most decades it spans."""

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One line of a picture.

    Attributes:
        label: Its name in the legend.
        points: x and y, by rising x.
        color: Of line and marks.
        is_dashed: Whether it is a reference and has no marks.
        is_open: Whether its marks are rings, which another curve's marks leave visible.
    """

    label: str
    points: Points
    color: str
    is_dashed: bool = False
    is_open: bool = False


def scaling_picture(plan: Estimate) -> str:
    """Return the simulated throughput over systems, for a growing and for a fixed batch."""
    weak = [(point.num_systems, point.timing.samples_per_second) for point in plan.weak_scaling]
    strong = [(point.num_systems, point.timing.samples_per_second) for point in plan.strong_scaling]
    first = weak[0][1]
    ideal = [(count, first * count) for count, _ in weak]
    share = plan.weak_scaling[0].batch_size
    return _picture(
        title=f"{plan.name} on {plan.machine}, {plan.execution}: simulated samples per second",
        x_label=f"{plan.machine} systems",
        x_ticks=_apart([count for count, _ in weak]),
        y_label="samples/s (simulated)",
        curves=(
            Curve(
                label=f"perfect, batch {share:,} per system",
                points=ideal,
                color=_GREY,
                is_dashed=True,
            ),
            Curve(
                label=f"batch {plan.step.batch_size:,} in all",
                points=strong,
                color=_ORANGE,
                is_open=True,
            ),
            Curve(label=f"batch {share:,} per system", points=weak, color=_BLUE),
        ),
        is_y_logarithmic=True,
        legend_x=_LEFT + 12,
    )


def loss_picture(flops: float) -> str:
    """Return the compute-optimal loss around one amount of compute, which is marked."""
    line = [(point.training_flops, point.loss) for point in loss_curve(flops)]
    return _picture(
        title="Expected loss at 20 tokens per parameter (Cerebras-GPT)",
        x_label="training FLOPs",
        y_label="loss, nats per token",
        curves=(
            Curve(label="scaling law", points=line, color=_GREY, is_dashed=True),
            Curve(label="this model", points=[(flops, compute_optimal_loss(flops))], color=_BLUE),
        ),
        is_y_logarithmic=False,
        legend_x=_WIDTH - 190,
    )


def _picture(
    *,
    title: str,
    x_label: str,
    y_label: str,
    curves: Sequence[Curve],
    is_y_logarithmic: bool,
    legend_x: float,
    x_ticks: Sequence[float] = (),
) -> str:
    xs = [x for curve in curves for x, _ in curve.points]
    ys = [y for curve in curves for _, y in curve.points]
    to_x, round_ticks = _axis(xs, _LEFT, _WIDTH - _RIGHT, is_logarithmic=True)
    to_y, y_ticks = _axis(ys, _HEIGHT - _BOTTOM, _TOP, is_logarithmic=is_y_logarithmic)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        _text(_WIDTH / 2, 24, title, size=14),
        _text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 14, x_label),
        f'<text transform="translate(18 {_HEIGHT / 2:.0f}) rotate(-90)" '
        f'text-anchor="middle">{_escaped(y_label)}</text>',
    ]
    for tick in x_ticks or round_ticks:
        parts.append(_line(to_x(tick), _TOP, to_x(tick), _HEIGHT - _BOTTOM))
        parts.append(_text(to_x(tick), _HEIGHT - _BOTTOM + 18, _number(tick)))
    for tick in y_ticks:
        parts.append(_line(_LEFT, to_y(tick), _WIDTH - _RIGHT, to_y(tick)))
        parts.append(_text(_LEFT - 8, to_y(tick) + 4, _number(tick), anchor="end"))
    for curve in curves:
        parts.extend(_drawn(curve, to_x, to_y))
    parts.extend(_legend(curves, legend_x))
    return "\n".join([*parts, "</svg>"])


def _legend(curves: Sequence[Curve], left: float) -> list[str]:
    width = 46 + 6.6 * max(len(curve.label) for curve in curves)
    height = 10 + 18 * len(curves)
    parts = [
        '<g class="legend">',
        f'<rect x="{left - 6}" y="{_TOP + 2}" width="{width:.0f}" height="{height}" fill="white" '
        'stroke="#dddddd"/>',
    ]
    for index, curve in enumerate(curves):
        y = _TOP + 16.0 + 18 * index
        line = f'x1="{left}" y1="{y - 4}" x2="{left + 24}" y2="{y - 4}" stroke="{curve.color}"'
        dashes = ' stroke-dasharray="5 4"' if curve.is_dashed else ""
        parts.append(f'<line {line} stroke-width="2"{dashes}/>')
        if not curve.is_dashed:
            parts.extend(_marks(replace(curve, points=[(left + 12, y - 4)]), float, float))
        parts.append(_text(left + 32, y, curve.label, anchor="start"))
    return [*parts, "</g>"]


def _apart(counts: Sequence[int]) -> list[float]:
    """Return the counts whose labels do not run into one another; the last one stays."""
    kept: list[float] = [float(counts[-1])]
    room = 0.05 * math.log(max(counts[-1], 2))
    for count in reversed(counts[:-1]):
        if math.log(kept[-1] / count) > room:
            kept.append(float(count))
    return kept[::-1]


def _axis(
    values: Sequence[float], begin: float, end: float, *, is_logarithmic: bool
) -> tuple[Callable[[float], float], list[float]]:
    """Return the map from values to pixels and the values to label."""
    low, high = min(values), max(values)
    scale: Callable[[float], float] = math.log10 if is_logarithmic else float
    if low == high:
        low, high = (low / 2, high * 2) if is_logarithmic else (low - 1, high + 1)
    first, last = scale(low), scale(high)
    margin = 0.04 * (last - first)

    def to_pixels(value: float) -> float:
        part = (scale(value) - first + margin) / (last - first + 2 * margin)
        return begin + part * (end - begin)

    if not is_logarithmic:
        step = 10.0 ** math.floor(math.log10(high - low)) / 5
        step *= math.ceil((high - low) / step / 8)
        steps = range(math.ceil(low / step), math.floor(high / step) + 1)
        return to_pixels, [step * index for index in steps]
    factors = next(each for most, each in _FACTORS if last - first < most)
    decades = range(math.floor(first), math.ceil(last) + 1)
    ticks = [factor * 10.0**decade for decade in decades for factor in factors]
    return to_pixels, [tick for tick in ticks if low * 0.98 <= tick <= high * 1.02]


def _drawn(
    curve: Curve, to_x: Callable[[float], float], to_y: Callable[[float], float]
) -> list[str]:
    path = " ".join(f"{to_x(x):.1f},{to_y(y):.1f}" for x, y in curve.points)
    dashes = ' stroke-dasharray="5 4"' if curve.is_dashed else ""
    style = f'fill="none" stroke="{curve.color}" stroke-width="2"{dashes}'
    line = f'<polyline points="{path}" {style}/>'
    return [line] if curve.is_dashed else [line, *_marks(curve, to_x, to_y)]


def _marks(
    curve: Curve, to_x: Callable[[float], float], to_y: Callable[[float], float]
) -> list[str]:
    mark = f'r="4" fill="{curve.color}"'
    if curve.is_open:
        mark = f'r="7" fill="none" stroke="{curve.color}" stroke-width="2"'
    return [f'<circle cx="{to_x(x):.1f}" cy="{to_y(y):.1f}" {mark}/>' for x, y in curve.points]


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#dddddd"/>'


def _text(x: float, y: float, text: str, *, size: int = 12, anchor: str = "middle") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}">'
        f"{_escaped(text)}</text>"
    )


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _number(value: float) -> str:
    if value >= 1e6 or value < 1e-2:
        return f"{value:.0e}".replace("e+", "e")
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"
