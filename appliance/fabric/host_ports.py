"""Ports at which the host sends to and receives from single PEs, all of them at the same time."""

import ctypes
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from appliance.fabric.commands import PortIn, PortOut
from appliance.fabric.native.loader import Kernel

_LEFT_IN, _LEFT_OUT = 22, 23
"""What `Kernel.inspect` calls the wavelets that a PE has still to take or give."""


@dataclass(slots=True)
class _Transfer:
    ticket: int
    command: PortIn | PortOut
    data: NDArray[np.uint32]
    is_open: bool = False


class HostPorts:
    """Transfers that have not ended; those of one port take place one after another."""

    def __init__(self, kernel: Kernel, handle: int, width: int) -> None:
        self._kernel, self._handle, self._width = kernel, handle, width
        self._transfers: list[_Transfer] = []

    def __bool__(self) -> bool:
        return bool(self._transfers)

    def add(self, ticket: int, command: PortIn | PortOut) -> None:
        """Begin a transfer as soon as its port is free."""
        if isinstance(command, PortIn):
            data = np.ascontiguousarray(command.data, dtype=np.uint32).copy()
        else:
            data = np.zeros(command.num_wavelets, np.uint32)
        self._transfers.append(_Transfer(ticket, command, data))

    def serve(self, run: Callable[[], bool], done: dict[int, NDArray[np.uint32] | None]) -> bool:
        """Let time pass once, and report what has ended; whether anything can still happen.

        Args:
            run: Simulates for a while, and says whether anything moved.
            done: Gets the results by ticket.
        """
        self._open()
        has_moved = run()
        ended = [transfer for transfer in self._transfers if self._has_ended(transfer)]
        for transfer in ended:
            is_in = isinstance(transfer.command, PortIn)
            done[transfer.ticket] = None if is_in else transfer.data
            self._transfers.remove(transfer)
        return has_moved or bool(ended)

    def waiting(self) -> str:
        """Return what is waited for, in words."""
        parts = []
        for transfer in self._transfers:
            command, number = transfer.command, self._number(transfer.command)
            is_in = isinstance(command, PortIn)
            left = self._kernel.inspect(self._handle, number, _LEFT_IN if is_in else _LEFT_OUT, 0)
            way = "take" if is_in else "send"
            count = left if transfer.is_open else len(transfer.data)
            parts.append(f"{command.name} to {way} {count:,} more wavelets")
        return f"the host waits for {', and for '.join(parts)}."

    def _open(self) -> None:
        busy: set[tuple[int, bool]] = set()
        for transfer in self._transfers:
            command = transfer.command
            number, is_in = self._number(command), isinstance(command, PortIn)
            if (number, is_in) not in busy and not transfer.is_open:
                transfer.is_open = True
                address = ctypes.c_void_p(transfer.data.ctypes.data)
                self._kernel.stream(
                    self._handle, number, command.color, int(is_in), address, len(transfer.data), 0
                )
            busy.add((number, is_in))

    def _has_ended(self, transfer: _Transfer) -> bool:
        if not transfer.is_open:
            return False
        which = _LEFT_IN if isinstance(transfer.command, PortIn) else _LEFT_OUT
        number = self._number(transfer.command)
        return self._kernel.inspect(self._handle, number, which, 0) == 0

    def _number(self, command: PortIn | PortOut) -> int:
        return command.y * self._width + command.x
