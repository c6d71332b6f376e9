"""A plan as the text of a layout in CSL."""

from collections.abc import Callable

from appliance.csl.sources import Source
from appliance.csl.syntax import parse, tree
from appliance.sdk.layout.code_regions import Pe
from appliance.sdk.layout.layout_plan import PePlan, Plan
from appliance.sdk.layout.routing import Color, Route, RoutingPosition
from appliance.sdk.symbols import HostCallError

EMPTY = "<empty>"
"""The code of a PE of which only the router is used."""


def layout_text(plan: Plan, origin: Pe, size: Pe, read: Callable[[str], str | None]) -> str:
    """Return a layout.

    Args:
        plan: What it says.
        origin: The PE that is the rectangle's corner.
        size: The rectangle's width and height.
        read: Returns the text of a file; which type a param of a color has is found there.
    """
    lines = ["layout {", f"  @set_rectangle({size[0]}, {size[1]});"]
    color_params: dict[str, frozenset[str]] = {}
    for y in range(size[1]):
        for x in range(size[0]):
            pe = (origin[0] + x, origin[1] + y)
            found = plan.pes.get(pe, PePlan())
            file = found.file or EMPTY
            if file not in color_params:
                color_params[file] = _color_params(file, read)
            params = _params(plan, found, color_params[file])
            lines.append(f'  @set_tile_code({x}, {y}, "{file}", .{{ {params} }});')
            for color, positions in found.routes.items():
                number = plan.number_of(color)
                routes = _routes(color, pe, positions)
                lines.append(f"  @set_color_config({x}, {y}, @get_color({number}), {routes});")
    return "\n".join([*lines, "}", ""])


def _color_params(file: str, read: Callable[[str], str | None]) -> frozenset[str]:
    """Return the params of a file that are colors; those of other types take a number."""
    text = None if file.startswith("<") else read(file)
    if text is None:
        return frozenset()
    parsed, _ = parse(Source(file, text, 0))
    return frozenset(
        item.name
        for item in parsed.items
        if isinstance(item, tree.Declaration)
        and item.kind == "param"
        and (item.type is None or (isinstance(item.type, tree.Name) and item.type.name == "color"))
    )


def _params(plan: Plan, pe: PePlan, color_params: frozenset[str]) -> str:
    parts = []
    for name, value in pe.params.items():
        if isinstance(value, Color):
            number = str(plan.number_of(value))
            text = f"@get_color({number})" if name in color_params else number
        else:
            text = "true" if value is True else "false" if value is False else str(value)
        parts.append(f".{name} = {text}")
    return ", ".join(parts)


def _routes(color: Color, pe: Pe, positions: tuple[RoutingPosition, ...]) -> str:
    first = positions[0]
    if not first.get_input() or not first.get_output():
        missing = "output" if first.get_input() else "input"
        raise HostCallError(f"{color} in PE {pe} has no {missing}: set it in its position.")
    text = f".routes = .{{ .rx = {_side(first.get_input())}, .tx = {_side(first.get_output())} }}"
    if len(positions) > 1:
        switches = [
            f".pos{at} = {_change(positions[at - 1], position)}"
            for at, position in enumerate(positions[1:], 1)
        ]
        text += f", .switches = .{{ {', '.join(switches)} }}"
    return f".{{ {text} }}"


def _change(before: RoutingPosition, position: RoutingPosition) -> str:
    """Return the sides in which a switch position differs from the one before it."""
    parts = []
    if position.get_input() != before.get_input():
        parts.append(f".rx = {position.get_input()[0].value}")
    if position.get_output() != before.get_output() or not parts:
        parts.append(f".tx = {_side(position.get_output())}")
    return f".{{ {', '.join(parts)} }}"


def _side(routes: list[Route]) -> str:
    return f".{{ {', '.join(route.value for route in routes)} }}"
