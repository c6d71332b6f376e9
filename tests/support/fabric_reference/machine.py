"""The grid: what happens in a cycle, and what the host does."""

from collections.abc import Iterator

import numpy as np

from appliance.csl.program import NO_CODE, Direction, Program
from appliance.fabric.loading import machine_of
from appliance.fabric.lowering.classes import lower_class
from tests.support.fabric_reference.arithmetic import Unit
from tests.support.fabric_reference.code import Runner
from tests.support.fabric_reference.core import Core
from tests.support.fabric_reference.image import Image, read_image
from tests.support.fabric_reference.router import (
    NUM_COLORS,
    RAMP,
    Fault,
    HostPort,
    Route,
    Router,
)
from tests.support.fabric_reference.services import Services
from tests.support.fabric_reference.threads import Threads
from tests.support.fabric_reference.wavelets import Queue

_DEPTHS = {
    "wse2": ((6, 6, 4, 4, 2, 2, 2, 2), (2, 2, 6, 6, 2, 2, 2, 2)),
    "wse3": ((8, 8, 4, 4, 4, 4, 4, 4), (8,) * 8),
}
"""Words that input and output queues hold."""
_STEPS = {
    Direction.WEST: (-1, 0),
    Direction.EAST: (1, 0),
    Direction.SOUTH: (0, 1),
    Direction.NORTH: (0, -1),
}


class Fabric:
    """A program on the reference fabric."""

    def __init__(
        self, program: Program, *, reverse_tasks: bool = False, is_checked: bool = False
    ) -> None:
        self.program = program
        self.machine = machine_of(program)
        self.now = 0
        self.fault: Fault | None = None
        self._reverse_tasks = reverse_tasks
        self._is_checked = is_checked
        images = [self._image(number) for number in range(len(program.classes))]
        codes = np.frombuffer(program.grid.code, dtype="<u4").tolist()
        self.routers: list[Router] = []
        self.cores: list[Core | None] = []
        for number, code in enumerate(codes):
            image = None if code == NO_CODE else images[code]
            self.routers.append(self._router(number, image))
            self.cores.append(None if image is None else self._core(number, image))

    def _image(self, number: int) -> Image:
        lowered = lower_class(
            self.program.classes[number],
            architecture=self.program.architecture,
            fp16_format=self.program.fp16_format,
            machine=self.machine,
            is_checked=self._is_checked,
        )
        return read_image(lowered)

    # --- how a PE starts

    def _router(self, number: int, image: Image | None) -> Router:
        ramp = self.machine.ramp_cycles
        inputs, outputs = (
            [Queue(depth + ramp) for depth in depths]
            for depths in _DEPTHS[self.program.architecture]
        )
        router = Router(
            number, self._neighbour, inputs, outputs, ramp, max(1, self.program.channels)
        )
        x, y = self._place(number)
        routing = self.program.grid.routing_class(x, y)
        if routing < len(self.program.routings):
            for color in self.program.routings[routing].colors:
                router.routes[color.color] = Route.of(color)
        if image is not None:
            self._bind(router, image)
        return router

    def _bind(self, router: Router, image: Image) -> None:
        for number, color in enumerate(image.inputs):
            router.inputs[number].priority = image.priorities[number]
            if color is not None:
                router.bind(number, color)
        router.queue_of |= image.queue_of
        for number, color in enumerate(image.outputs):
            if color is not None:
                router.outputs[number].color = color
                router.outputs[number].is_bound = True
        if self.program.architecture == "wse3":
            return
        # A color that can reach the ramp has a queue without asking: the highest free ones serve.
        for color in range(NUM_COLORS):
            route = router.routes.get(color)
            reaches = route and any(tx & RAMP.bit for tx in route.tx_at.values())
            free = [n for n, queue in enumerate(router.inputs) if not queue.is_bound]
            if reaches and color not in router.queue_of and free:
                router.bind(free[-1], color)
                router.inputs[free[-1]].is_lent = True

    def _core(self, number: int, image: Image) -> Core:
        is_wse3 = self.program.architecture == "wse3"
        router, unit = self.routers[number], Unit(self.program.fp16_format)
        threads = Threads(image, router, unit, is_wse3=is_wse3)
        services = Services(router, threads, self._place(number))
        runner = Runner(image, threads, services)
        if image.start is not None:
            runner.pc, runner.is_running = image.start, True
            runner.run(0)
        return Core(
            image,
            router,
            threads,
            services,
            runner,
            self.machine.task_start_cycles,
            self.machine.local_task_start_cycles,
            is_wse3,
            self._reverse_tasks,
        )

    def _place(self, number: int) -> tuple[int, int]:
        return number % self.program.grid.width, number // self.program.grid.width

    def _neighbour(self, number: int, port: Direction) -> Router | None:
        x, y = self._place(number)
        step_x, step_y = _STEPS[port]
        x, y = x + step_x, y + step_y
        if 0 <= x < self.program.grid.width and 0 <= y < self.program.grid.height:
            return self.routers[y * self.program.grid.width + x]
        return None

    # --- a cycle

    def step(self) -> None:
        """Simulate a cycle; of several faults in it the one on the lowest PE counts."""
        self.now += 1
        faults: list[Fault] = []
        moves = [move for router in self.routers for move in router.decide(self.now)]
        arrivals = [
            arrival for move in moves for arrival in self.routers[move.pe].commit(move, self.now)
        ]
        for router, wavelet, port in arrivals:
            try:
                router.arrive(wavelet, port, self.now)
            except Fault as fault:
                faults.append(fault)
        for core in self._cores():
            try:
                core.step(self.now)
            except Fault as fault:
                faults.append(fault)
            except ZeroDivisionError:
                faults.append(Fault("DIVISION", core.router.number))
        self.fault = min(faults, key=lambda fault: fault.pe, default=None)

    def _cores(self) -> Iterator[Core]:
        return (core for core in self.cores if core is not None)

    # --- the host

    def launch(self, functions: dict[int, int], arguments: tuple[int, ...] = ()) -> None:
        """Have PEs call a function, its number by PE, each column a cycle after the one before."""
        for number, function in functions.items():
            core = self.cores[number]
            if core is not None:
                core.call = (function, arguments)
                core.call_at = self.now + 1 + self._place(number)[0]

    def stream_in(self, number: int, color: int, words: list[int], first: int = 0) -> None:
        """Send words to a PE."""
        router = self.routers[number]
        router.host_in = HostPort(color, words, len(words), self.now + 1, first)
        router.host_sent = 0

    def stream_out(self, number: int, color: int, total: int) -> None:
        """Collect words from a PE."""
        self.routers[number].host_out = HostPort(color, [], total, self.now + 1)
