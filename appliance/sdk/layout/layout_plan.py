"""What a layout becomes: code, params and routes of each PE, and where the host's ports lie."""

from collections import defaultdict
from dataclasses import dataclass, field

from appliance.sdk.layout.code_regions import CodeRegion, Pe, PortHandle
from appliance.sdk.layout.colors import HOST_COLOR, Classes, numbers_of
from appliance.sdk.layout.paths import MARGIN, Box, beside, box_of, find_path, routes_along
from appliance.sdk.layout.routing import OPPOSITE, Color, Route, RoutingPosition
from appliance.sdk.symbols import HostCallError


@dataclass(slots=True)
class HostStream:
    """A port that the host sends to or receives from.

    Attributes:
        name: What the host calls it.
        pe: The PE that sends or receives for the host.
        is_packed: Whether the port's operations take the halves of a word one after the other.
    """

    name: str
    port: PortHandle
    pe: Pe = (0, 0)
    is_packed: bool = False


@dataclass(slots=True)
class PePlan:
    """One PE: its file (empty for a router alone), params, and positions of each color."""

    file: str = ""
    params: dict[str, int | Color] = field(default_factory=dict)
    routes: dict[Color, tuple[RoutingPosition, ...]] = field(default_factory=dict)


class Plan:
    """A layout in which every PE and color is decided.

    Args:
        regions: The regions, each with a place.
        connections: Ports that send, with those that they send to.
        streams: Ports of the host.
        is_wse3: The architecture.

    Raises:
        HostCallError: Regions overlap, ports do not fit, or there is no path or color left.
    """

    def __init__(
        self,
        regions: list[CodeRegion],
        connections: list[tuple[PortHandle, PortHandle]],
        streams: list[HostStream],
        *,
        is_wse3: bool,
    ) -> None:
        self.pes: dict[Pe, PePlan] = {}
        self._classes = Classes()
        self._owners: dict[Pe, CodeRegion] = {}
        for region in regions:
            self._add_region(region)
        self._box: Box = box_of(list(self.pes), MARGIN + len(streams))
        for sender, receiver in connections:
            self._classes.join(sender.color, receiver.color)
        self._used: dict[Color, set[Pe]] = defaultdict(set)
        self._note_used()
        for sender, receiver in connections:
            self._connect(sender, receiver)
        for stream in streams:
            self._open(stream)
        self.numbers = self._numbers(is_wse3=is_wse3)

    def number_of(self, color: Color) -> int:
        """Return the number of a color."""
        return self.numbers[self._classes.find(color)]

    def _add_region(self, region: CodeRegion) -> None:
        assert region.origin is not None
        for x, y in region.pes():
            pe = (region.origin[0] + x, region.origin[1] + y)
            if pe in self._owners:
                raise HostCallError(
                    f"Regions {self._owners[pe].name!r} and {region.name!r} overlap in PE {pe}."
                )
            self._owners[pe] = region
            self.pes[pe] = PePlan(region.file, dict(region.params[x, y]), dict(region.routes[x, y]))

    def _note_used(self) -> None:
        for pe, plan in self.pes.items():
            for color in plan.routes:
                self._used[self._classes.find(color)].add(pe)

    # Paths.

    def _connect(self, sender: PortHandle, receiver: PortHandle) -> None:
        if sender.is_input or not receiver.is_input:
            raise HostCallError(
                f"{sender.name} and {receiver.name} cannot be connected: an output port sends to "
                "an input port."
            )
        starts, ends = _places(sender), _places(receiver)
        if len(starts) != len(ends):
            raise HostCallError(
                f"Ports {sender.name} and {receiver.name} have {len(starts)} and {len(ends)} PEs; "
                "connected ports have equally many."
            )
        for start, end in zip(starts, ends, strict=True):
            self._link(sender, start, receiver, end)

    def _link(self, sender: PortHandle, start: Pe, receiver: PortHandle, end: Pe) -> None:
        leaving, entering = sender.edge.route, receiver.edge.route
        first, last = beside(start, leaving), beside(end, entering)
        if first == end and last == start:
            return
        color = self._classes.find(sender.color)
        blocked = self._owners.keys() | self._used[color]
        path = find_path(first, lambda pe: pe == last, blocked, self._box)
        if path is None:
            raise HostCallError(
                f"There is no path from port {sender.name} at PE {start} to port "
                f"{receiver.name} at PE {end}; leave room between the regions."
            )
        self._route(sender.color, path, OPPOSITE[leaving], OPPOSITE[entering])

    def _open(self, stream: HostStream) -> None:
        """Find a PE that sends or receives for the host, and its path to the port."""
        port = stream.port
        places = _places(port)
        if len(places) != 1:
            raise HostCallError(
                f"Stream {stream.name} is of a port of {len(places)} PEs; the host reaches ports "
                "of one."
            )
        outside = beside(places[0], port.edge.route)
        blocked = self._owners.keys() | self._used[self._classes.find(port.color)]
        path = find_path(outside, self._is_free, blocked, self._box)
        if path is None:
            raise HostCallError(
                f"There is no room for the host's stream {stream.name} beside PE {places[0]}; "
                f"leave the PEs on the {port.edge.value} side free."
            )
        stream.pe = path[-1]
        toward = OPPOSITE[port.edge.route]
        if port.is_input:
            self._route(port.color, path[::-1], Route.RAMP, toward)
        else:
            self._route(port.color, path, toward, Route.RAMP)
        plan = self.pes[stream.pe]
        plan.file = "<host_port/input>" if port.is_input else "<host_port/output>"
        plan.params = {"outer": HOST_COLOR, "inner": port.color}

    def _is_free(self, pe: Pe) -> bool:
        return pe not in self.pes or not self.pes[pe].file

    def _route(self, color: Color, path: list[Pe], entry: Route, leave: Route) -> None:
        for pe, source, target in routes_along(path, entry, leave):
            plan = self.pes.setdefault(pe, PePlan())
            position = RoutingPosition().set_input([source]).set_output([target])
            plan.routes[color] = (position,)
            self._used[self._classes.find(color)].add(pe)

    # Colors.

    def _numbers(self, *, is_wse3: bool) -> dict[Color, int]:
        places: dict[Color, set[Pe]] = defaultdict(set)
        switched: set[Color] = set()
        for pe, plan in self.pes.items():
            for color, positions in plan.routes.items():
                places[self._classes.find(color)].add(pe)
                if len(positions) > 1:
                    switched.add(self._classes.find(color))
            for value in plan.params.values():
                if isinstance(value, Color):
                    places[self._classes.find(value)].add(pe)
        return numbers_of(places, switched, is_wse3=is_wse3)


def _places(port: PortHandle) -> list[Pe]:
    origin = port.region.origin
    assert origin is not None
    return [(origin[0] + x, origin[1] + y) for x, y in port.region.side(port.edge)]
