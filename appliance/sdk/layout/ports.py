"""What the runtime reads of a layout: where its corner lies, the host's streams, initial data."""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PORTS_FILE = "ports.json"


@dataclass(frozen=True, slots=True)
class StreamPlace:
    """The PE that sends or receives for the host, in coordinates of the layout."""

    x: int
    y: int
    is_input: bool = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class InitialBlock:
    """What a symbol of a PE holds from the start."""

    x: int
    y: int
    symbol: str
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PortMap:
    """A layout, as far as the runtime needs it.

    Attributes:
        origin: The layout's coordinates of the first PE of the program.
        streams: Streams of the host by name.
        blocks: Initial data.
    """

    origin: tuple[int, int] = (0, 0)
    streams: Mapping[str, StreamPlace] = field(default_factory=dict)
    blocks: Sequence[InitialBlock] = ()

    def number_of(self, name: str) -> int:
        """Return the number of a stream.

        Raises:
            ValueError: There is no such stream.
        """
        names = list(self.streams)
        if name not in names:
            raise ValueError(f"There is no port {name!r}; there are {', '.join(names) or 'none'}.")
        return names.index(name)

    def place_of(self, port: int | str, *, is_input: bool) -> tuple[str, int, int]:
        """Return a stream's name, and its PE in coordinates of the program.

        Raises:
            ValueError: There is no such stream, or it goes the other way.
        """
        names = list(self.streams)
        if isinstance(port, str):
            port = self.number_of(port)
        if not 0 <= port < len(names):
            raise ValueError(
                f"There is no port {port}; they are numbered from 0 to {len(names) - 1}."
            )
        name = names[port]
        place = self.streams[name]
        if place.is_input is not is_input:
            way = "receives from" if is_input else "sends to"
            raise ValueError(f"Port {name!r}: the host {way} it.")
        return name, place.x - self.origin[0], place.y - self.origin[1]

    # `Any`: JSON.
    def as_json(self) -> dict[str, Any]:
        """Return what is written to `ports.json`."""
        return {
            "origin": list(self.origin),
            "streams": {
                name: {"x": place.x, "y": place.y, "is_input": place.is_input}
                for name, place in self.streams.items()
            },
            "blocks": [
                [block.x, block.y, block.symbol, base64.b64encode(block.data).decode()]
                for block in self.blocks
            ],
        }

    @classmethod
    def load(cls, directory: Path) -> "PortMap":
        """Read it; one without ports where the program was compiled by `cslc`."""
        path = directory / PORTS_FILE
        if not path.is_file():
            return cls()
        found = json.loads(path.read_text())
        streams = {
            name: StreamPlace(place["x"], place["y"], is_input=place["is_input"])
            for name, place in found["streams"].items()
        }
        blocks = [
            InitialBlock(x, y, symbol, base64.b64decode(data))
            for x, y, symbol, data in found["blocks"]
        ]
        x, y = found["origin"]
        return cls(origin=(x, y), streams=streams, blocks=blocks)
