"""What libraries ask of the machine: the clock, routers, queues, priorities."""

from collections.abc import Callable
from dataclasses import dataclass, field

from appliance.csl.program import SwitchPosition
from tests.support.fabric_reference.operands import Kind
from tests.support.fabric_reference.router import NUM_COLORS, Fault, Route, Router
from tests.support.fabric_reference.threads import Threads

ROUTE_REGISTERS, SWITCH_REGISTERS, QUEUE_REGISTERS = 0x7F20, 0x7F40, 0x7F58
_POP_MODES = ("no_pop", "always_pop", "pop_on_advance", "pop_on_advance_nop")


@dataclass
class Services:
    """The machine's services on one PE.

    Attributes:
        main_priority: Microthreads above it go before the main thread.
        high_tasks: Local tasks that go before all others.
        flushed: Queues whose flush is done and not left: inputs 0 to 7, outputs 8 to 15.
        handled: Colors in teardown whose handler has been started.
    """

    router: Router
    threads: Threads
    place: tuple[int, int]
    main_priority: int = 1
    high_tasks: set[int] = field(default_factory=set)
    flushed: set[int] = field(default_factory=set)
    handled: set[int] = field(default_factory=set)
    has_unblocked: bool = False
    num_unblocked: int = 0
    _counting_since: int | None = None
    _counted: int = 0

    def serve(self, name: str, arguments: list[int], now: int, *, is_half: bool) -> int:
        """Do what a service does and return its result.

        Raises:
            NotImplementedError: It belongs to a library, not to the fabric.
        """
        del is_half
        known: dict[str, Callable[[], int | None]] = {
            "coordinate_x": lambda: self.place[0],
            "coordinate_y": lambda: self.place[1],
            "unblock_command_stream": self._unblock,
            "config_read": lambda: self._configuration(arguments[0], None),
            "config_write": lambda: self._configuration(arguments[0], arguments[1] & 0xFFFF),
            "task_priority": lambda: self._set_priority(arguments),
            "main_thread_priority": lambda: self._set_main_priority(arguments[0]),
            "fifo_set_read_length": lambda: self._set_length("read_length", *arguments[:2]),
            "fifo_set_write_length": lambda: self._set_length("write_length", *arguments[:2]),
        }
        if name in known:
            return known[name]() or 0
        if name.startswith("timestamp"):
            return self._clock(name, arguments, now)
        if name.startswith("queue"):
            return self._serve_queue(name, arguments)
        if name.startswith(("set_routes", "switch", "teardown", "filter")):
            return self._serve_route(name, arguments)
        raise NotImplementedError(f"The reference fabric has no service {name!r}.")

    def _unblock(self) -> None:
        self.has_unblocked = True
        self.num_unblocked += 1

    def _configuration(self, address: int, value: int | None) -> int:
        if not self.is_register(address):
            raise Fault("NO_REGISTER", self.router.number)
        return self.access_register(address, value)

    def is_register(self, word: float) -> bool:
        """Say whether a word address is that of a color or an input queue; on WSE-2 alone."""
        is_color = any(
            word - first in range(NUM_COLORS) for first in (ROUTE_REGISTERS, SWITCH_REGISTERS)
        )
        return not self.threads.is_wse3 and (is_color or word - QUEUE_REGISTERS in range(8))

    def access_register(self, word: int, value: int | None) -> int:
        """Write a register unless `value` is None; return what it holds."""
        if word >= QUEUE_REGISTERS:
            return self.queue_register(word - QUEUE_REGISTERS, value)
        return self.route_register(word, value)

    def queue_register(self, number: int, value: int | None) -> int:
        """Write the priority of what reads an input queue; return it, in bits 9 and 8."""
        queue = self.router.inputs[number]
        if value is not None:
            queue.priority = min(3, 1 + (value >> 8 & 3))
            for thread in self.threads.running.values():
                if any(c.kind is Kind.FABRIC_IN and c.queue == number for c in thread.operands):
                    thread.priority = queue.priority
        return ((queue.priority or 2) - 1) << 8

    def route_register(self, word: int, value: int | None) -> int:
        """Write a register of a color unless `value` is None; return what it holds."""
        is_switch = word >= SWITCH_REGISTERS
        route = self.router.route(word - (SWITCH_REGISTERS if is_switch else ROUTE_REGISTERS))
        if value is not None and is_switch:
            route.write_switch(value)
        elif value is not None:
            route.write_route(value)
        return route.switch_word() if is_switch else route.route_word()

    def _set_priority(self, arguments: list[int]) -> None:
        change = self.high_tasks.add if arguments[1] else self.high_tasks.discard
        change(arguments[0] & 63)

    def _set_main_priority(self, value: int) -> None:
        self.main_priority = value

    def _set_length(self, side: str, fifo: int, length: int) -> None:
        self.threads.fifos[fifo][side] = length

    def _clock(self, name: str, arguments: list[int], now: int) -> int:
        since = self._counting_since
        value = self._counted + (now - since if since is not None else 0)
        match name:
            case "timestamp_read":
                self.threads.write(arguments[0] & 0xFFFF, 6, value)
            case "timestamp_reset":
                self._counted = 0
                self._counting_since = None if since is None else now
            case "timestamp_enable" | "timestamp_disable":
                self._counted = value
                self._counting_since = now if name == "timestamp_enable" else None
            case _:
                raise NotImplementedError(name)
        return 0

    def _serve_queue(self, name: str, arguments: list[int]) -> int:
        if name == "queue_bind_input":
            self.router.bind(arguments[0] & 7, arguments[1] % NUM_COLORS)
            self.router.inputs[arguments[0] & 7].is_filtered = bool(arguments[2])
            return 0
        if name == "queue_bind_output":
            queue = self.router.outputs[arguments[0] & 7]
            queue.color, queue.is_bound = arguments[1], True
            return 0
        is_output, number = bool(arguments[0]), arguments[1] & 7
        queue = (self.router.outputs if is_output else self.router.inputs)[number]
        key = number + 8 * is_output
        match name:
            case "queue_flush":
                queue.is_flushing = True
            case "queue_flush_exit":
                queue.is_flushing = False
                self.flushed.discard(key)
            case "queue_flush_pending":
                return int(key in self.flushed)
            case "queue_is_empty":
                return int(not queue.wavelets)
            case "queue_is_full":
                return int(len(queue.wavelets) >= queue.room - self.router.ramp_cycles)
            case _:
                raise NotImplementedError(name)
        return 0

    def _serve_route(self, name: str, arguments: list[int]) -> int:
        color, values = arguments[0] % NUM_COLORS, arguments[1:]
        if name == "teardown_pending":
            return int(color in self.router.torn_down)
        route = self.router.route(color)
        if name == "get_routes":
            return route.rx_at[0] | route.tx_at[0] << 8
        match name:
            case "set_routes":
                route.rx_at[0], route.tx_at[0], route.is_used = values[0], values[1], True
            case "teardown_exit":
                route.is_torn_down = False
                self.router.torn_down.discard(color)
                self.handled.discard(color)
            case _:
                self._set_switch(route, name, values)
                self._set_filter(route, name, values)
        return 0

    def _set_switch(self, route: Route, name: str, values: list[int]) -> None:
        match name:
            case "switch_clear_position":
                route.position = 0
            case "switch_set_position":
                route.position = values[0] & 3
            case "switch_invalidate":
                route.valid.clear()
            case "switch_set":
                position = SwitchPosition(rx=values[1], tx=values[2], valid=True)
                route.set_position(values[0] & 3, position)
                route.has_switch = True
            case "switch_ring_mode":
                route.is_ring = bool(values[0])
            case "switch_pop_mode":
                route.pop_mode = _POP_MODES[values[0]]
            case _:
                pass

    def _set_filter(self, route: Route, name: str, values: list[int]) -> None:
        if route.filter is None:
            return
        match name:
            case "filter_set_active":
                route.filter.is_active = bool(values[0])
            case "filter_set_counter":
                route.filter.counter = values[0]
            case "filter_set_limit":
                field_name = ("greatest", "limit", "second_limit")[values[0]]
                setattr(route.filter, field_name, values[1])
            case "filter_set_range":
                route.filter.least_index, route.filter.greatest_index = values[0], values[1]
            case _:
                pass
