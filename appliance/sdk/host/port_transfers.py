"""What the host sends to and receives from ports of a program that `SdkLayout` laid out."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from appliance.sdk.host.arrays import HostArray, Words
from appliance.sdk.host.port_data import check_room, store_words, words_to_send
from appliance.sdk.host.tasks import Task
from appliance.sdk.host.told import told_to_host
from appliance.sdk.layout.colors import HOST_COLOR
from appliance.sdk.layout.ports import PortMap

if TYPE_CHECKING:
    from appliance.fabric.commands import Command


class PortTransfers(ABC):
    """The part of the runtime that knows ports by name or number."""

    _ports: PortMap

    @abstractmethod
    def _begin(
        self,
        what: str,
        command: "Command",
        nonblock: bool,
        deliver: Callable[[Words], None] | None,
    ) -> Task:
        """Submit a command, and wait for it unless it does not block."""

    def get_port_id(self, name: str) -> int:
        """Return the number of a port."""
        with told_to_host():
            return self._ports.number_of(name)

    def report_port_infos(self) -> None:
        """Print name, number and place of every port."""
        for number, (name, place) in enumerate(self._ports.streams.items()):
            way = "input" if place.is_input else "output"
            print(f"{number} {name}: {way} at PE ({place.x}, {place.y})")  # noqa: T201 - a report

    def send(
        self,
        port: int | str,
        src: HostArray,
        n_wavelets: int | None = None,
        *,
        nonblock: bool = False,
    ) -> Task:
        """Send words of 32 bits to a port."""
        from appliance.fabric.commands import PortIn  # noqa: PLC0415 - as in `load`

        with told_to_host():
            name, x, y = self._ports.place_of(port, is_input=True)
            words = words_to_send(np.asarray(src), n_wavelets)
        return self._begin("send", PortIn(name, HOST_COLOR, x, y, words), nonblock, None)

    def receive(
        self,
        port: int | str,
        dest: HostArray,
        n_wavelets: int,
        *,
        nonblock: bool = False,
    ) -> Task:
        """Receive words of 32 bits from a port into the beginning of an array."""
        from appliance.fabric.commands import PortOut  # noqa: PLC0415 - as in `load`

        with told_to_host():
            name, x, y = self._ports.place_of(port, is_input=False)
            check_room(dest, n_wavelets)
        command = PortOut(name, HOST_COLOR, x, y, int(n_wavelets))
        return self._begin("receive", command, nonblock, partial(store_words, dest))

    def receive_tofile(
        self, port: int | str, outfile: str, n_wavelets: int, *, nonblock: bool = False
    ) -> Task:
        """Receive words of 32 bits from a port and write them to a file."""
        from appliance.fabric.commands import PortOut  # noqa: PLC0415 - as in `load`

        with told_to_host():
            name, x, y = self._ports.place_of(port, is_input=False)
        path = Path(outfile).resolve()
        command = PortOut(name, HOST_COLOR, x, y, int(n_wavelets))
        return self._begin("receive_tofile", command, nonblock, lambda words: words.tofile(path))
