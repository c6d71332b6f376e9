"""A core: which task runs, and who issues the one instruction of a cycle.

* Tasks run to their end, one after another, each some cycles after the one before. What the host
  calls comes first, then local tasks of high priority; all others take turns by their ids, upwards
  from the one after the last that ran.
* A data wavelet at the head of a queue that no operation uses runs the data task of its color
  (WSE-2) or queue (WSE-3); a control wavelet the control task that it names. Blocked ones wait.
* Microthreads above the main thread's priority issue first, those of one priority in turn. What
  they issue while the main thread is busy makes it busy for longer.
"""

from dataclasses import dataclass

from tests.support.fabric_reference.arithmetic import extend
from tests.support.fabric_reference.code import Runner
from tests.support.fabric_reference.image import Image
from tests.support.fabric_reference.router import NUM_COLORS, Fault, Router
from tests.support.fabric_reference.services import Services
from tests.support.fabric_reference.threads import MAIN_THREAD, NUM_MICROTHREADS, Threads

TEARDOWN_ID = 29
NO_TASK_ID = 31
"""A control wavelet that names this id runs nothing."""


@dataclass(frozen=True, slots=True)
class Ready:
    """A task that can run: its id for the turn, the function, and the queue of its wavelet."""

    identifier: int
    kind: str
    key: int
    queue: int = 0


@dataclass
class Core:
    """The core of one PE."""

    image: Image
    router: Router
    threads: Threads
    services: Services
    runner: Runner
    task_cycles: int
    local_task_cycles: int
    is_wse3: bool
    reverse_tasks: bool = False
    call: tuple[int, tuple[int, ...]] | None = None
    call_at: int = 0
    last_task: int = 0
    next_thread: int = 0
    busy_until: int = 0
    slot_free: int = 0
    busy_cycles: int = 0

    def step(self, now: int) -> None:
        """Issue one instruction, if any can be."""
        self._settle_flushes()
        if self.slot_free > now:
            return
        above = self.services.main_priority
        for priority in (3, 2, 1):
            if priority == above and self._issue_main(now):
                return
            if self._issue_microthreads(priority, now):
                return
        if above == 0:
            self._issue_main(now)

    def _settle_flushes(self) -> None:
        queues = [*self.router.inputs, *self.router.outputs]
        for number, queue in enumerate(queues):
            if queue.is_flushing and not queue.wavelets and queue.user is None:
                self.services.flushed.add(number)

    # --- microthreads

    def _issue_microthreads(self, priority: int, now: int) -> bool:
        for step in range(NUM_MICROTHREADS):
            number = (self.next_thread + step) % NUM_MICROTHREADS
            thread = self.threads.running.get(number)
            if thread is None or thread.priority != priority or thread.ready > now:
                continue
            if self.threads.blocked["threads"] >> number & 1:
                continue
            if self.threads.step(thread, now, is_main=False):
                self._use_slot(now)
                self.next_thread = (number + 1) % NUM_MICROTHREADS
                if self.busy_until > now:
                    self.busy_until += 1
                return True
        return False

    def _use_slot(self, now: int) -> None:
        self.slot_free = now + 1
        self.busy_cycles += 1

    # --- the main thread

    def _issue_main(self, now: int) -> bool:
        """Go on with the main thread; say whether the cycle is the main thread's."""
        if self.busy_until > now:
            return True
        while True:
            if self.runner.in_operation:
                return self._issue_operation(now)
            if self.runner.is_running:
                cycles, waits = self.runner.run(now)
                if waits:
                    return False
            else:
                ready = self._choose(now)
                if ready is None:
                    return False
                self._start(ready)
                is_local = ready.kind == "local"
                cycles = self.local_task_cycles if is_local else self.task_cycles
            if cycles:
                self.busy_until = now + cycles
                self.busy_cycles += cycles
                return True

    def _issue_operation(self, now: int) -> bool:
        thread = self.threads.running[MAIN_THREAD]
        if not self.threads.step(thread, now, is_main=True):
            return False
        self._use_slot(now)
        if not thread.is_active:
            self.runner.end_operation(thread)
        return True

    # --- tasks

    def _choose(self, now: int) -> Ready | None:
        if self.call is not None and now >= self.call_at:
            return Ready(0, "call", self.call[0])
        ready = [*self._handlers(), *self._wavelet_tasks(now), *self._local_tasks()]
        return min(ready, key=self._turn, default=None)

    def _turn(self, ready: Ready) -> tuple[bool, int]:
        is_high = ready.kind == "local" and ready.identifier in self.services.high_tasks
        distance = (ready.identifier - self.last_task - 1) % 64
        if self.reverse_tasks:
            distance = (self.last_task - 1 - ready.identifier) % 64
        return not is_high, distance

    def _handlers(self) -> list[Ready]:
        if self.threads.blocked["local"] >> TEARDOWN_ID & 1:
            return []
        waiting = sorted(self.router.torn_down - self.services.handled)
        waiting += [NUM_COLORS + queue for queue in sorted(self.services.flushed)]
        return [Ready(TEARDOWN_ID, "handler", key) for key in waiting[:1]]

    def _wavelet_tasks(self, now: int) -> list[Ready]:
        found = (self._wavelet_task(number, now) for number in range(len(self.router.inputs)))
        return [ready for ready in found if ready is not None]

    def _wavelet_task(self, number: int, now: int) -> Ready | None:
        queue = self.router.inputs[number]
        head = queue.head(now)
        if head is None or queue.user is not None:
            return None
        channel = number if self.is_wse3 else head.color
        if head.is_control:
            word = "queue" if self.is_wse3 else "color"
            identifier = head.data >> 16 & 63
            is_blocked = self.threads.blocked[word] >> channel & 1
            return None if is_blocked else Ready(identifier, "control", identifier, number)
        is_blocked = self.threads.blocked["data"] >> channel & 1
        if channel not in self.image.data_tasks or is_blocked:
            return None
        return Ready(channel, "data", channel, number)

    def _local_tasks(self) -> list[Ready]:
        ready = self.threads.active & ~self.threads.blocked["local"]
        return [Ready(n, "local", n) for n in sorted(self.image.local_tasks) if ready >> n & 1]

    def _start(self, ready: Ready) -> None:
        self.last_task = ready.identifier
        function: int | None
        match ready.kind:
            case "call":
                assert self.call is not None
                function, arguments = self.call
                first = self.image.functions[function].first
                self.threads.frame[first : first + len(arguments)] = arguments
                self.call = None
            case "handler":
                function = self.image.handlers.get(ready.key)
                if ready.key < NUM_COLORS:
                    self.services.handled.add(ready.key)
            case "local":
                function = self.image.local_tasks[ready.key]
                self.threads.active &= ~(1 << ready.key)
            case _:
                function = self._take_wavelet(ready)
        if function is not None:
            self.runner.enter(function)
        elif (ready.kind, ready.key) != ("control", NO_TASK_ID):
            raise Fault("NO_TASK", self.router.number)

    def _take_wavelet(self, ready: Ready) -> int | None:
        data = self.router.inputs[ready.queue].wavelets.pop(0).data
        is_data = ready.kind == "data"
        tasks = self.image.data_tasks if is_data else self.image.control_tasks
        widths = self.image.data_widths if is_data else self.image.control_widths
        function = tasks.get(ready.key)
        if function is not None:
            self._split(function, data, widths[ready.key])
        return function

    def _split(self, function: int, data: int, widths: int) -> None:
        """Give a task its arguments: parts of the payload, from the low end."""
        slot, shift = self.image.functions[function].first, 0
        while widths:
            bits, signed = widths & 63, bool(widths >> 7 & 1)
            value = 0 if shift >= 32 else extend(data >> shift, max(bits, 1), signed=signed)
            self.threads.frame[slot] = value
            slot, shift, widths = slot + 1, shift + max(bits, 16), widths >> 8
