"""The kernel and the reference fabric side by side, cycle for cycle."""

import ctypes
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from appliance.csl.program import Program
from appliance.fabric.bytecode import NUM_QUEUES, Fault
from appliance.fabric.loading import load_program
from appliance.fabric.native.loader import load_kernel
from tests.support.fabric_reference.core import Core
from tests.support.fabric_reference.machine import Fabric

_QUIET, _FAULT = 0, 2
_NEVER = (1 << 64) - 1
_ENDLESS = 0xFFFFFFFF
_REST = 12
"""Cycles in which nothing may happen any more once the kernel says that nothing can."""

State = dict[str, object]


@dataclass(frozen=True, slots=True)
class Feed:
    """Words that the host sends to a PE; `first` words of the stream go to others before."""

    pe: int
    color: int
    words: tuple[int, ...]
    first: int


@dataclass(frozen=True, slots=True)
class Drain:
    """Words that the host collects from a PE: so many of a color."""

    pe: int
    color: int
    total: int


@dataclass(frozen=True)
class Outcome:
    """What came of a program: the fault, if any, the last cycle, memory and cycles by PE."""

    fault: str
    cycles: int
    memory: tuple[bytes, ...] = ()
    drained: tuple[tuple[int, ...], ...] = ()
    busy: tuple[int, ...] = ()
    moves: int = 0


@dataclass
class FastFabric:
    """The kernel with a program, and what can be seen of it."""

    program: Program
    order: int = 0
    num_threads: int = 1
    is_checked: bool = False
    owners: list[object] = field(default_factory=list)
    drained: list[tuple[Drain, NDArray[np.uint32]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.kernel = load_kernel()
        self.loaded = load_program(
            self.program,
            self.kernel,
            order=self.order,
            num_threads=self.num_threads,
            is_checked=self.is_checked,
        )
        self.handle = self.loaded.handle
        self.kernel.start(self.handle)

    def close(self) -> None:
        """Give its memory back."""
        self.kernel.free(self.handle)

    def launch(self, functions: dict[int, int]) -> None:
        """Have PEs call a function, its number by PE, each column a cycle after the one before."""
        for number, function in functions.items():
            delay = number % self.program.grid.width
            self.kernel.call(self.handle, number, function, None, 0, delay)

    def feed(self, feed: Feed) -> None:
        """Have the host send words."""
        data = np.array(feed.words, dtype=np.uint32)
        self.owners.append(data)
        address, total = ctypes.c_void_p(data.ctypes.data), len(data)
        self.kernel.stream(self.handle, feed.pe, feed.color, 1, address, total, feed.first)

    def drain(self, drain: Drain) -> None:
        """Have the host collect words."""
        data = np.zeros(drain.total, dtype=np.uint32)
        self.drained.append((drain, data))
        address = ctypes.c_void_p(data.ctypes.data)
        self.kernel.stream(self.handle, drain.pe, drain.color, 0, address, drain.total, 0)

    def collected(self) -> tuple[tuple[int, ...], ...]:
        """Return what the host has collected so far, stream by stream."""
        return tuple(
            tuple(data[: len(data) - self.look(drain.pe, 23)].tolist())
            for drain, data in self.drained
        )

    def run(self, limit: int) -> int:
        """Simulate up to and with the cycle before `limit`."""
        return self.kernel.run(self.handle, limit, 0, 0, 1 << 40)

    @property
    def fault(self) -> str:
        """The fault and its PE, empty without one."""
        kind = Fault(self.kernel.value(self.handle, 1))
        return f"{kind.name} on {self.kernel.value(self.handle, 2)}" if kind else ""

    def look(self, number: int, what: int, index: int = 0) -> int:
        """Read one number of a PE."""
        return self.kernel.inspect(self.handle, number, what, index)

    def is_touched(self, number: int) -> bool:
        """Say whether a PE has ever done anything."""
        return self.look(number, 0) != _NEVER

    def state(self, number: int, colors: Iterable[int]) -> State:
        """Return what can be seen of a PE."""
        look = self.look
        flags = look(number, 1)
        state: State = {
            "running": flags & 1,
            "operation": flags >> 1 & 1,
            "pc": look(number, 0),
            "active": look(number, 2),
            "blocked": (look(number, 3), look(number, 4)),
            "busy": look(number, 17),
            "inputs": [look(number, 10, queue) for queue in range(NUM_QUEUES)],
            "outputs": [look(number, 12, queue) for queue in range(NUM_QUEUES)],
            "threads": {t: look(number, 7, t) for t in range(9) if look(number, 5, t)},
        }
        for color in colors:
            packed = look(number, 15, color)
            if packed != _NEVER:
                state[f"color {color}"] = (
                    *(look(number, 14, color), packed & 0xFF, packed >> 8 & 0xFF),
                    *(packed >> 16 & 0xFF, packed >> 24 & 0xFF),
                )
        return state

    def memory(self, number: int, size: int) -> bytes:
        """Return the memory of a PE."""
        address = self.kernel.memory(self.handle, number)
        assert address is not None
        return ctypes.string_at(address, size)


def slow_state(fabric: Fabric, number: int) -> State:
    """Return the same of a PE of the reference."""
    core, router = fabric.cores[number], fabric.routers[number]
    assert core is not None
    state: State = {
        "running": int(core.runner.is_running),
        "operation": int(core.runner.in_operation),
        "pc": core.runner.pc,
        "active": core.threads.active,
        "blocked": (core.threads.blocked["local"], core.threads.blocked["data"]),
        "busy": core.busy_cycles,
        "inputs": [len(queue.wavelets) for queue in router.inputs],
        "outputs": [len(queue.wavelets) for queue in router.outputs],
        "threads": _threads(core),
    }
    for color, route in router.routes.items():
        state[f"color {color}"] = (
            *(len(route.buffer), route.rx, route.tx),
            *(int(route.is_torn_down), route.position),
        )
    return state


def _threads(core: Core) -> dict[int, int]:
    running = core.threads.running
    return {
        number: _ENDLESS if running[number].remaining is None else int(running[number].remaining)  # type: ignore[arg-type]
        for number in sorted(running)
    }


def differences(fast: FastFabric, slow: Fabric) -> Iterator[str]:
    """Yield what is not the same in both, PE by PE."""
    for number in range(len(slow.cores)):
        wanted = slow_state(slow, number)
        if not fast.is_touched(number):
            if (
                wanted["running"]
                or wanted["threads"]
                or any(len(slow.routers[number].inputs[q].wavelets) for q in range(8))
            ):
                yield f"PE {number} has not been touched: {wanted}"
            continue
        found = fast.state(number, slow.routers[number].routes)
        for name, value in wanted.items():
            if found.get(name) != value:
                yield f"cycle {slow.now}, PE {number}, {name}: {found.get(name)}, not {value}"


def run_both(
    program: Program,
    functions: dict[int, int],
    *,
    limit: int,
    order: int = 0,
    feeds: Sequence[Feed] = (),
    drains: Sequence[Drain] = (),
    is_checked: bool = False,
) -> Outcome:
    """Run a program on both and compare them after each cycle.

    Args:
        program: The program.
        functions: What PEs call first: the function's number by PE.
        limit: Cycles at most.
        order: 1 lets tasks take turns downwards.
        feeds: What the host sends from the start.
        drains: What it collects.
        is_checked: Whether indices beyond an array are found.

    Raises:
        AssertionError: They differ.
    """
    fast = FastFabric(program, order, is_checked=is_checked)
    slow = Fabric(program, reverse_tasks=bool(order), is_checked=is_checked)
    try:
        fast.launch(functions)
        slow.launch(functions)
        for feed in feeds:
            fast.feed(feed)
            slow.stream_in(feed.pe, feed.color, list(feed.words), feed.first)
        for drain in drains:
            fast.drain(drain)
            slow.stream_out(drain.pe, drain.color, drain.total)
        return _run_both(fast, slow, limit)
    finally:
        fast.close()


def _run_both(fast: FastFabric, slow: Fabric, limit: int) -> Outcome:
    resting = 0
    while slow.now < limit and resting < _REST:
        reason = fast.run(slow.now + 2)
        slow.step()
        found = fast.fault if reason == _FAULT or fast.fault else ""
        wanted = f"{slow.fault.kind} on {slow.fault.pe}" if slow.fault else ""
        assert found == wanted, f"cycle {slow.now}: {found!r}, not {wanted!r}"
        if found:
            return Outcome(found, slow.now)
        assert not [*differences(fast, slow)], "\n".join(differences(fast, slow))
        assert fast.collected() == _collected(slow, fast.drained), f"cycle {slow.now}"
        resting = resting + 1 if reason == _QUIET else 0
    return _outcome(fast, slow)


def _collected(
    slow: Fabric, drained: Sequence[tuple[Drain, object]]
) -> tuple[tuple[int, ...], ...]:
    ports = [slow.routers[drain.pe].host_out for drain, _ in drained]
    return tuple(tuple(port.words) for port in ports if port is not None)


def _outcome(fast: FastFabric, slow: Fabric) -> Outcome:
    memories = []
    for number, core in enumerate(slow.cores):
        assert core is not None
        wanted = bytes(core.threads.memory)
        if fast.is_touched(number):
            assert fast.memory(number, len(wanted)) == wanted, f"memory of PE {number}"
        memories.append(wanted)
    busy = tuple(core.busy_cycles for core in slow.cores if core)
    moves = fast.kernel.value(fast.handle, 7)
    return Outcome("", slow.now, tuple(memories), fast.collected(), busy, moves)
