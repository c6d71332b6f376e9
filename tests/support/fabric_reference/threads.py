"""DSD operations, element by element: microthreads, and the main thread's own operation.

* An operation is as long as its first source that has a length, else as its destination, else 1.
* It moves one element in an instruction issue, when every source can give one and the destination
  takes one; else it waits. Memory alone never waits: the main thread does it at once and is busy
  for as many cycles as the machine's width and its banks of memory need.
* A queue has one user at a time, a microthread one operation.
* A control wavelet ends an operation that was told what to do then; any other takes it as data. No
  task takes a wavelet of a queue that an operation reads.
"""

from appliance.fabric.bytecode import OperandKind, TargetNumber
from tests.support.fabric_reference.arithmetic import (
    Unit,
    takes_two_sources,
    widths_of,
)
from tests.support.fabric_reference.image import Image, Settings, Site
from tests.support.fabric_reference.operands import (
    ADDRESS,
    ENDLESS,
    Cursor,
    Kind,
    read_descriptor,
)
from tests.support.fabric_reference.operations import (
    MEDIUM,
    LoadedDsr,
    Thread,
    length_of,
    rate_of,
    reading_cycles,
    share_one_bank,
    walks,
)
from tests.support.fabric_reference.router import Fault, Router
from tests.support.fabric_reference.wavelets import Wavelet

MAIN_THREAD = 8
NUM_MICROTHREADS = 8
_ACTIVATE, _UNBLOCK = 1, 2
_TERMINATE, _FAULT = 1, 3
_CONTROL_MARK = 0xC0000000
"""The bits that say of data that they were a control wavelet, by `.control_transform`."""


class Threads:
    """The operations of one PE, and the state that they share with its tasks."""

    def __init__(self, image: Image, router: Router, unit: Unit, *, is_wse3: bool) -> None:
        self.image = image
        self.router = router
        self.unit = unit
        self.is_wse3 = is_wse3
        self.memory = bytearray(image.memory)
        self.frame = list(image.frame)
        self.fifos = [dict(fifo) for fifo in image.fifos]
        self.dsrs: dict[tuple[int, int], LoadedDsr] = {}
        self.running: dict[int, Thread] = {}
        self.active = image.active
        self.blocked = dict(image.blocked) | {"threads": 0}

    # --- tasks' bits

    def activate(self, identifier: int) -> None:
        """Mark a local task active."""
        self.active |= 1 << (identifier & 63)

    def set_blocked(self, kind: int, identifier: int, *, blocked: bool) -> None:
        """Block or unblock; a data task is its color (WSE-2) or its queue (WSE-3)."""
        channel = "queue" if self.is_wse3 else "color"
        words = {
            TargetNumber.LOCAL_TASK: ("local",),
            TargetNumber.CONTROL_TASK: ("local",),
            TargetNumber.DATA_TASK: ("data", channel),
            TargetNumber.COLOR: ("color",) if self.is_wse3 else ("data", "color"),
            TargetNumber.INPUT_QUEUE: ("data", "queue") if self.is_wse3 else ("queue",),
            TargetNumber.MICROTHREAD: ("threads",),
        }[TargetNumber(kind)]
        bit = 1 << (identifier & 63)
        for word in words:
            self.blocked[word] = self.blocked[word] | bit if blocked else self.blocked[word] & ~bit

    def _complete(self, what: int, kind: int, identifier: int) -> None:
        if what == _ACTIVATE:
            self.activate(identifier)
        elif what == _UNBLOCK:
            self.set_blocked(kind, identifier, blocked=False)

    # --- operands

    def slot(self, number: int | None) -> int:
        """Return the 16 bits that a slot of the frame holds, 0 without one."""
        return 0 if number is None else self.frame[number] & 0xFFFF

    def cursor(self, site: Site, place: int) -> Cursor:
        """Return an operand of an instruction as it is now."""
        kind, slot = site.kinds[place], site.slots[place]
        match kind:
            case OperandKind.NONE:
                return Cursor()
            case OperandKind.SCALAR:
                return Cursor(Kind.SCALAR, value=self.frame[slot] & 0xFFFFFFFF)
            case OperandKind.PLACE:
                return Cursor(Kind.PLACE, address=self.frame[slot] & ADDRESS)
            case OperandKind.FIFO:
                length = self.fifos[slot]["read_length" if place else "write_length"]
                return Cursor(Kind.FIFO, queue=slot, length=None if length == ENDLESS else length)
            case OperandKind.DESCRIPTOR:
                return self._described(self.frame[slot])
            case OperandKind.DSR:
                return self._from_dsr((site.files[place], slot))

    def _from_dsr(self, name: tuple[int, int]) -> Cursor:
        if name not in self.dsrs:
            raise Fault("BAD_OPERAND", self.router.number)
        cursor = self._described(self.dsrs[name].value)
        cursor.dsr = name
        return cursor

    def _described(self, dsd: int) -> Cursor:
        cursor = read_descriptor(dsd, self.image.shapes)
        if cursor.kind is Kind.FABRIC_IN:
            if cursor.queue == 15:
                cursor.queue = self.router.queue_of.get(cursor.color, 15)
            shares = self.router.queue_of.get(cursor.color) == cursor.queue
            cursor.only_its_color = shares and not self.is_wse3
        if cursor.kind is Kind.FABRIC_OUT and cursor.queue == 15:
            bound = [n for n, q in enumerate(self.router.outputs) if q.is_bound]
            mine = [n for n in bound if self.router.outputs[n].color == cursor.color]
            cursor.queue = mine[0] if mine else cursor.color % 6
        return cursor

    def load_dsr(self, site: Site) -> None:
        """Load a data structure register."""
        self.dsrs[site.dsr] = LoadedDsr(
            self.frame[site.slots[0]],
            site.settings,
            self.slot(site.settings.target_slot),
            self.slot(site.settings.control_slot),
            site.saves_address,
        )

    def save_addresses(self, operands: tuple[Cursor, ...]) -> None:
        """Move the addresses of DSRs that save theirs behind what was covered."""
        for cursor in operands:
            dsr = self.dsrs.get(cursor.dsr) if cursor.dsr else None
            if dsr and dsr.saves_address and not cursor.is_fabric and cursor.kind is not Kind.NONE:
                dsr.value = dsr.value & ~ADDRESS | cursor.address & ADDRESS

    # --- starting

    def prepare(self, site: Site) -> Thread:
        """Return the operation of an instruction, not yet started."""
        operands = (self.cursor(site, 0), self.cursor(site, 1), self.cursor(site, 2))
        deciding = self._deciding(site, operands)
        settings = deciding[0].settings if deciding else site.settings
        self._take_control(site, operands)
        name = "faddsh" if site.name == "faddhs" and self._is_wider_first(operands) else site.name
        thread = Thread(name, operands, settings, widths=widths_of(name))
        if settings.asynchronous:
            thread.endings = self._endings(site, operands, is_own=not deciding)
        thread.microthread = self._told_number(site, operands)
        thread.factor = self.frame[site.slots[3]] & 0xFFFFFFFF
        if site.settings.index_slot is not None:
            thread.index = self.slot(site.settings.index_slot)
        thread.remaining = length_of(operands)
        if operands[0].kind is Kind.PLACE and any(c.kind is Kind.FIFO for c in operands):
            operands[0].value = self.read(operands[0].address, thread.widths.dest)
        first = operands[1].kind is Kind.SCALAR and operands[0].kind is Kind.PLACE
        thread.accumulates = first and takes_two_sources(name)
        thread.priority = self._priority(settings, operands)
        return thread

    def _take_control(self, site: Site, operands: tuple[Cursor, ...]) -> None:
        """Note which streams a control wavelet ends: as said where each was loaded."""
        for cursor in operands[1:]:
            if cursor.kind is not Kind.FABRIC_IN:
                continue
            dsr = self.dsrs[cursor.dsr] if cursor.dsr else None
            own = dsr.settings if dsr else site.settings
            target = dsr.control_target if dsr else self.slot(own.control_slot)
            cursor.stops_at_control = bool(own.terminates or own.control_action)
            cursor.control = (own.control_action, own.control_kind, target)

    def _endings(
        self, site: Site, operands: tuple[Cursor, ...], *, is_own: bool
    ) -> list[tuple[int, int, int]]:
        """What the operation does at its end: as it says itself, and as its DSRs do."""
        own = site.settings
        said = [(own.completion, own.target_kind, self.slot(own.target_slot))] if is_own else []
        loaded = [self.dsrs[c.dsr] for c in operands if c.dsr and c.kind is not Kind.NONE]
        said += [
            (d.settings.completion, d.settings.target_kind, d.target)
            for d in loaded
            if d.settings.asynchronous
        ]
        return said

    def _is_wider_first(self, operands: tuple[Cursor, ...]) -> bool:
        """Say whether of two streams that `@faddhs` adds the first one has the 32-bit numbers."""
        if any(cursor.kind is Kind.SCALAR for cursor in operands[1:]):
            return False
        return self._bytes_of(operands[1]) == 4 or self._bytes_of(operands[2]) == 2

    def _bytes_of(self, cursor: Cursor) -> int:
        if cursor.kind is Kind.FIFO:
            return self.fifos[cursor.queue]["element_bytes"]
        known = cursor.kind in (Kind.MEMORY, Kind.SHAPED, Kind.CIRCULAR)
        return cursor.element_bytes if known else 0

    def _deciding(self, site: Site, operands: tuple[Cursor, ...]) -> list[LoadedDsr]:
        """The DSR whose settings count, if not the operation's own: that of what streams."""
        streams = [c for c in operands if c.is_fabric or c.kind is Kind.FIFO]
        named = [self.dsrs[c.dsr] for c in (streams or operands) if c.dsr]
        found = [dsr for dsr in named if dsr.settings.asynchronous][-1:] or named[:1]
        is_direct = any(not c.dsr for c in streams)
        own = site.settings.asynchronous or not (found and found[0].settings.asynchronous)
        return [] if is_direct and own else found

    def _priority(self, settings: Settings, operands: tuple[Cursor, ...]) -> int:
        queues = [c.queue for c in operands if c.kind is Kind.FABRIC_IN and c.queue < 8]
        given = [self.router.inputs[queue].priority for queue in queues]
        return settings.priority or next((p for p in given if p), MEDIUM)

    def waits_for_others(self, thread: Thread) -> bool:
        """Say whether an operation touches what others see, or runs beside the main thread."""
        touches = any(c.is_fabric or c.kind is Kind.FIFO for c in thread.operands)
        return touches or thread.settings.asynchronous

    def start(self, thread: Thread) -> int:
        """Start an operation that waits for others; return the number of its thread."""
        number = self._number(thread) if thread.settings.asynchronous else MAIN_THREAD
        if number in self.running:
            raise Fault("MICROTHREAD_BUSY", self.router.number)
        for cursor in thread.operands:
            if not cursor.is_fabric:
                continue
            queues = self.router.inputs
            queues = queues if cursor.kind is Kind.FABRIC_IN else self.router.outputs
            if cursor.queue >= len(queues) or not self._has_color(cursor):
                raise Fault("NO_QUEUE", self.router.number)
            if queues[cursor.queue].user is not None:
                raise Fault("QUEUE_BUSY", self.router.number)
            queues[cursor.queue].user = number
        self.running[number] = thread
        return number

    def _has_color(self, cursor: Cursor) -> bool:
        """Say whether a queue was given a color; an output of WSE-2 has that of its DSD."""
        if cursor.kind is Kind.FABRIC_IN:
            queue = self.router.inputs[cursor.queue]
            return queue.is_bound and not queue.is_lent
        return not self.is_wse3 or self.router.outputs[cursor.queue].is_bound

    def _told_number(self, site: Site, operands: tuple[Cursor, ...]) -> int | None:
        """The id that the first operand with one says; one that is no DSR has the operation's."""
        steps = [c for c in operands if c.kind not in (Kind.NONE, Kind.SCALAR, Kind.PLACE)]
        own = [self.dsrs[c.dsr].settings if c.dsr else site.settings for c in steps]
        return next((s.microthread for s in own if s.microthread is not None), None)

    def _number(self, thread: Thread) -> int:
        """A microthread's id: as told, else the queue's it sends to, else that it reads."""
        if thread.microthread is not None:
            return thread.microthread
        fabric = [c.queue for c in thread.operands if c.is_fabric]
        return fabric[0] & 7 if fabric else 7

    def do_in_memory(self, thread: Thread) -> None:
        """Do the whole of an operation over memory."""
        thread.endings = []
        while thread.is_active:
            self.step(thread, 0, is_main=True)

    def cycles_in_memory(self, thread: Thread, simd: int) -> int:
        """Return how long an operation over memory takes: its width, its strides, its banks."""
        widths = (thread.widths.dest, thread.widths.first, thread.widths.second)
        rates = [rate_of(c, w) for c, w in zip(thread.operands, widths, strict=True)]
        assert thread.remaining is not None
        rate = min(simd, *rates)
        lengths = [length for c in thread.operands if (length := c.row()[1]) is not None]
        row = min([thread.remaining, *lengths])
        if not row:
            return 0
        dest, *sources = thread.operands
        of_row = [rate] * (row // rate) + [row % rate]
        of_rest = [rate] * (thread.remaining % row // rate) + [thread.remaining % row % rate]
        together = of_row * (thread.remaining // row) + of_rest
        walk = [(c, w) for c, w in zip(sources, widths[1:], strict=True) if walks(c)]
        cycles = sum(reading_cycles(walk, num_elements) for num_elements in together)
        written = any(share_one_bank(dest, source) for source, _ in walk)
        return 2 * cycles if written and reading_cycles(walk, rate) == 1 else cycles

    # --- moving

    def step(self, thread: Thread, now: int, *, is_main: bool) -> bool:
        """Move one element, or end; say whether the operation used the cycle."""
        if thread.remaining == 0:
            return self._finish(thread)
        if thread.op == "dfilt":
            return self._drop(thread, now)
        dest, first, second = thread.operands
        if not (self.can_give(first, now) and self.can_give(second, now) and self.can_take(dest)):
            return self._obey_control(thread, now) or self._obey_fifo(thread, is_main=is_main)
        self._move(thread, now)
        if thread.remaining is not None:
            thread.remaining -= 1
            if thread.remaining == 0:
                self._finish(thread)
        return True

    def _move(self, thread: Thread, now: int) -> None:
        dest, first, second = thread.operands
        widths, index = thread.widths, thread.index or 0
        places = (first.address, second.address)
        values = {}
        # The wavelet first: its high half may say where in memory the other operand lies.
        order = ((2, second), (1, first)) if second.kind is Kind.FABRIC_IN else None
        for number, cursor in order or ((1, first), (2, second)):
            width = widths.first if number == 1 else widths.second
            value = self.take(cursor, width, index)
            if cursor.kind is Kind.FABRIC_IN and thread.index is None:
                index = value >> 16
            values[number] = value
        result = self.unit.compute(thread.op, values[1], values[2], thread.factor)
        if thread.accumulates:
            first.value = result
        is_last = thread.remaining == 1
        self.put(dest, widths.dest, result, index, now, thread=thread, is_last=is_last)
        for source in dest.clears:
            if thread.operands[source + 1].kind is Kind.MEMORY:
                width = widths.first if source == 0 else widths.second
                self.write(places[source], width, 0)

    def can_give(self, cursor: Cursor, now: int) -> bool:
        """Say whether a source has an element."""
        if cursor.kind is Kind.FABRIC_IN:
            head = self.router.inputs[cursor.queue].head(now)
            if head is None or (head.is_control and cursor.stops_at_control):
                return False
            return not cursor.only_its_color or head.color == cursor.color
        return cursor.kind is not Kind.FIFO or self.fifos[cursor.queue]["count"] > 0

    def can_take(self, cursor: Cursor) -> bool:
        """Say whether a destination takes an element."""
        if cursor.kind is Kind.FABRIC_OUT:
            return self.router.outputs[cursor.queue].has_room
        fifo = self.fifos[cursor.queue] if cursor.kind is Kind.FIFO else None
        return fifo is None or fifo["count"] < fifo["capacity"]

    def take(self, cursor: Cursor, width: int, index: int) -> int:
        """Take an element from a source."""
        match cursor.kind:
            case Kind.NONE:
                return 0
            case Kind.SCALAR:
                return cursor.value
            case Kind.FABRIC_IN:
                wavelet = self.router.inputs[cursor.queue].wavelets.pop(0)
                is_marked = wavelet.is_control and cursor.transforms
                return wavelet.data | (_CONTROL_MARK if is_marked else 0)
            case Kind.FIFO:
                return self._pop(self.fifos[cursor.queue], width)
            case _:
                value = self.read(cursor.place(index), width)
                cursor.step(width)
                return value

    def put(
        self,
        cursor: Cursor,
        width: int,
        value: int,
        index: int,
        now: int,
        *,
        thread: Thread | None = None,
        is_last: bool = False,
    ) -> None:
        """Give an element to a destination."""
        if cursor.kind is Kind.FABRIC_OUT:
            has_index = cursor.follows_index or (thread is not None and thread.index is not None)
            data = value | (index << 16 if width == 2 and has_index else 0)
            was_control = cursor.transforms and data & _CONTROL_MARK == _CONTROL_MARK
            data &= ~_CONTROL_MARK if was_control else 0xFFFFFFFF
            queue = self.router.outputs[cursor.queue]
            color = queue.color if self.is_wse3 else cursor.color
            ready = now + self.router.ramp_cycles
            is_control = cursor.is_control or was_control
            sent = Wavelet(data, color or 0, is_control, cursor.advances and is_last, ready)
            queue.wavelets.append(sent)
        elif cursor.kind is Kind.FIFO:
            self._push(self.fifos[cursor.queue], width, value)
        else:
            self.write(cursor.place(index), width, value)
            cursor.step(width)

    def read(self, address: int, width: int) -> int:
        """Read memory."""
        if address + width > len(self.memory):
            raise Fault("MEMORY", self.router.number)
        return int.from_bytes(self.memory[address : address + width], "little")

    def write(self, address: int, width: int, value: int) -> None:
        """Write memory."""
        if address + width > len(self.memory):
            raise Fault("MEMORY", self.router.number)
        low = value & ((1 << 8 * width) - 1)
        self.memory[address : address + width] = low.to_bytes(width, "little")

    # --- FIFOs

    def _pop(self, fifo: dict[str, int], width: int) -> int:
        value = self.read(fifo["address"] + fifo["head"] * fifo["element_bytes"], width)
        fifo["head"] = (fifo["head"] + 1) % fifo["capacity"]
        fifo["count"] -= 1
        if fifo["was_full"] and fifo["activate_pop"] != 0xFF:
            self.activate(fifo["activate_pop"])
        fifo["was_full"] = 0
        return value

    def _push(self, fifo: dict[str, int], width: int, value: int) -> None:
        at = (fifo["head"] + fifo["count"]) % fifo["capacity"]
        self.write(fifo["address"] + at * fifo["element_bytes"], width, value)
        fifo["count"] += 1
        if fifo["was_empty"] and fifo["activate_push"] != 0xFF:
            self.activate(fifo["activate_push"])
        fifo["was_empty"] = 0

    def _leave_rest(self, thread: Thread, fifo: dict[str, int], length: str) -> None:
        """Keep what is undone as the FIFO's length, and a pointer's target as it was."""
        if fifo[length]:
            fifo[length] = ENDLESS if thread.remaining is None else thread.remaining
        destination = thread.operands[0]
        if destination.kind is Kind.PLACE:
            self.write(destination.address, thread.widths.dest, destination.value)

    def _obey_fifo(self, thread: Thread, *, is_main: bool) -> bool:
        """Note that a FIFO is empty or full; end what is not to wait."""
        for place, cursor in enumerate(thread.operands):
            if cursor.kind is not Kind.FIFO:
                continue
            fifo = self.fifos[cursor.queue]
            stops, note, action = (
                (fifo["count"] == fifo["capacity"], "was_full", "full_action")
                if place == 0
                else (fifo["count"] == 0, "was_empty", "empty_action")
            )
            if not stops:
                continue
            fifo[note] = 1
            if fifo[action] == _FAULT:
                raise Fault("FIFO_FAULT", self.router.number)
            if fifo[action] == _TERMINATE or (is_main and fifo[action] == 0):
                if is_main and fifo[action] == 0:
                    self._leave_rest(thread, fifo, "read_length" if place else "write_length")
                return self._finish(thread, result=fifo[action] == _TERMINATE)
        return False

    # --- control wavelets, the end

    def _obey_control(self, thread: Thread, now: int) -> bool:
        for cursor in thread.operands[1:]:
            queue = self.router.inputs[cursor.queue] if cursor.stops_at_control else None
            head = queue.head(now) if queue else None
            if queue is None or head is None or not head.is_control:
                continue
            queue.wavelets.pop(0)
            if cursor.control[0]:
                self._complete(*cursor.control)
                thread.endings = []
            return self._finish(thread)
        return False

    def _drop(self, thread: Thread, now: int) -> bool:
        """`@dfilt` drops data until so many control wavelets have come."""
        queue = self.router.inputs[thread.operands[1].queue]
        head = queue.head(now)
        if head is None:
            return False
        queue.wavelets.pop(0)
        if head.is_control and thread.remaining is not None:
            thread.remaining -= 1
            if thread.remaining == 0:
                self._finish(thread)
        return True

    def _finish(self, thread: Thread, *, result: bool = True) -> bool:
        for cursor in thread.operands:
            if cursor.kind is Kind.FABRIC_IN:
                self.router.inputs[cursor.queue].user = None
            if cursor.kind is Kind.FABRIC_OUT:
                self.router.outputs[cursor.queue].user = None
        self.save_addresses(thread.operands)
        thread.is_active, thread.result = False, result
        for number in [n for n, t in self.running.items() if t is thread]:
            del self.running[number]
        for action, kind, target in thread.endings:
            self._complete(action, kind, target)
        return True
