"""Scalar instructions, and how far the main thread gets in one go.

The main thread executes at once whatever only its PE can see, and is then busy for as many cycles
as that costs. It stops before an instruction that touches what others see, which waits for its own
cycle. While microthreads are at work it does not get ahead by more than 64 cycles: it looks at that
where a loop closes or a function returns.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from appliance.fabric.bytecode import SERVICES, Op
from appliance.fabric.floats import encode_float
from tests.support.fabric_reference.arithmetic import (
    LONG,
    WORD,
    as_signed,
    divided,
    extend,
    truncated,
)
from tests.support.fabric_reference.image import Image, Instruction, Site
from tests.support.fabric_reference.operands import Cursor, Kind
from tests.support.fabric_reference.operations import Thread
from tests.support.fabric_reference.router import Fault
from tests.support.fabric_reference.services import Services
from tests.support.fabric_reference.threads import MAIN_THREAD, Threads

ALONE, BESIDE_OTHERS = 1 << 20, 64
_EXACT = range(SERVICES.index("unblock_command_stream"), SERVICES.index("config_write") + 1)
_TYPES = {f"{letter}{bits}": (bits, letter == "I") for letter in "IU" for bits in (8, 16, 32, 64)}


class Waits(Exception):
    """The instruction has to wait, for its own cycle or for a wavelet."""


@dataclass
class MapState:
    """An `@map` under way."""

    site: Site
    cursors: list[Cursor]


@dataclass
class Runner:
    """The main thread of one PE."""

    image: Image
    threads: Threads
    services: Services
    is_running: bool = False
    in_operation: bool = False
    pc: int = 0
    maps: list[MapState] = field(default_factory=list)
    stack: list[list[int]] = field(default_factory=list)
    _now: int = 0
    _spent: int = 0

    def enter(self, function: int) -> None:
        """Begin a function that returns to nobody."""
        entry = self.image.functions[function]
        self.pc = entry.start
        self.threads.frame[entry.return_slot] = 0
        self.is_running = True

    def run(self, now: int) -> tuple[int, bool]:
        """Execute as far as it goes; return the cycles that it takes and whether it waits."""
        limit = BESIDE_OTHERS if set(self.threads.running) - {MAIN_THREAD} else ALONE
        self._now, self._spent = now, 0
        while True:
            here, i = self.pc, self.image.code[self.pc]
            try:
                target = self._execute(i)
            except Waits:
                return self._spent, self._spent == 0
            self._spent += i.cost
            if not self.is_running or self.in_operation:
                return self._spent, False
            self.pc = here + 1 if target is None else target
            loops = target is not None and (target <= here or i.op is Op.RETURN)
            if loops and i.op not in (Op.CALL, Op.CALL_POINTER) and self._spent > limit:
                return self._spent, False

    def _execute(self, i: Instruction) -> int | None:
        name = i.op.name
        stem, _, suffix = name.rpartition("_")
        frame = self.threads.frame
        if stem in _WRAPPING and suffix in _TYPES:
            bits, signed = _TYPES[suffix]
            result = _WRAPPING[stem](frame[i.b], frame[i.c])
            frame[i.a] = extend(result, bits, signed=signed)
        elif name in _PLAIN:
            frame[i.a] = _PLAIN[name](frame[i.b], frame[i.c], i.imm) & LONG
        elif name in _TESTS:
            return i.imm if _TESTS[name](frame[i.a], frame[i.b]) else None
        elif name.startswith(("LOAD_", "INDEX_", "STORE_")) and i.op is not Op.LOAD_DSR:
            self._access(i, name)
        elif stem.startswith("F") or name in _FLOATS or "_TO_F" in name or "TO_BOOL" in name:
            frame[i.a] = self._float(i, name)
        else:
            handler: Callable[[Instruction], int | None] = getattr(self, "_" + name.lower())
            return handler(i)
        return None

    # --- memory

    def _access(self, i: Instruction, name: str) -> None:
        frame, memory = self.threads.frame, self.threads
        width = int(name[-2:]) // 8
        address = frame[i.b] + i.imm
        if name.startswith("INDEX"):
            address += frame[i.c] * width
        address &= 0xFFFF
        is_store, signed = "STORE" in name, "_I" in name.removeprefix("INDEX")
        if width == 2 and self.services.is_register(address / 2):
            self._wait_for_own_cycle()
            value = frame[i.a] & 0xFFFF if is_store else None
            found = self.services.access_register(address // 2, value)
            frame[i.a] = frame[i.a] if is_store else extend(found, 16, signed=signed)
        elif is_store:
            memory.write(address, width, frame[i.a])
        else:
            value = memory.read(address, width)
            frame[i.a] = extend(value, 8 * width, signed=signed)

    def _check_index(self, i: Instruction) -> None:
        if self.threads.frame[i.a] >= i.imm:
            raise Fault("INDEX", self.threads.router.number)

    def _copy(self, i: Instruction) -> None:
        frame, memory = self.threads.frame, self.threads
        source, to = frame[i.b] & 0xFFFF, frame[i.a] & 0xFFFF
        data = [memory.read(source + at, 1) for at in range(i.imm)]
        for at, byte in enumerate(data):
            memory.write(to + at, 1, byte)

    # --- floats

    def _float(self, i: Instruction, name: str) -> int:
        frame, unit = self.threads.frame, self.threads.unit
        stem, _, suffix = name.rpartition("_")
        if stem in ("S_TO", "U_TO"):
            value = as_signed(frame[i.b]) if stem == "S_TO" else frame[i.b]
            return _of_integer(value, int(suffix[1:]), unit.fp16)
        wide = "F32" in name.split("_TO_", maxsplit=1)[0]
        read = unit.single if wide else unit.half
        if suffix in ("S", "U"):
            signed = suffix == "S"
            number = truncated(read(frame[i.b]), i.imm, signed=signed)
            return extend(number, i.imm, signed=signed)
        if suffix == "BOOL":
            return int(frame[i.b] & (0x7FFFFFFF if wide else 0x7FFF) != 0)
        if name == "F32_TO_F16":
            return unit.of_half(unit.single(frame[i.b]))
        if name == "F16_TO_F32":
            return unit.of_single(unit.half(frame[i.b]))
        if stem == "FNEG":
            return frame[i.b] ^ (0x80000000 if wide else 0x8000)
        a, b = read(frame[i.b]), read(frame[i.c])
        if stem in _COMPARE:
            return int(_COMPARE[stem](a, b))
        result = _ARITHMETIC[stem](a, b)
        return unit.of_single(result) if wide else unit.of_half(result)

    # --- control flow

    def _stop(self, _i: Instruction) -> None:
        self.is_running, self.pc = False, 0

    def _jump(self, i: Instruction) -> int:
        return i.imm

    def _call(self, i: Instruction) -> int:
        self.threads.frame[i.a] = self.pc + 1
        return i.imm

    def _call_pointer(self, i: Instruction) -> int:
        frame = self.threads.frame
        if not 0 < frame[i.b] <= len(self.image.functions):
            raise Fault("NULL_FUNCTION", self.threads.router.number)
        entry = self.image.functions[frame[i.b] - 1]
        frame[entry.first : entry.first + i.c] = frame[i.a : i.a + i.c]
        frame[entry.return_slot] = self.pc + 1
        return entry.start

    def _return(self, i: Instruction) -> int:
        return self.threads.frame[i.a]

    def _save(self, i: Instruction) -> None:
        self.stack.append(self.threads.frame[i.a : i.a + i.imm])

    def _restore(self, i: Instruction) -> None:
        self.threads.frame[i.a : i.a + i.imm] = self.stack.pop()

    def _assert(self, i: Instruction) -> None:
        if not self.threads.frame[i.a]:
            raise Fault("ASSERTION", self.threads.router.number)

    # --- tasks, descriptors

    def _activate(self, i: Instruction) -> None:
        self.threads.activate(self.threads.frame[i.a])

    def _set_blocked(self, i: Instruction) -> None:
        self.threads.set_blocked(i.imm, self.threads.frame[i.a], blocked=bool(i.b))

    def _dsd_length(self, i: Instruction) -> None:
        self._change(i, 16, 16, self.threads.frame[i.c])

    def _dsd_color(self, i: Instruction) -> None:
        self._change(i, 5, 5, self.threads.frame[i.c])

    def _dsd_stride(self, i: Instruction) -> None:
        width = 2 << (self.threads.frame[i.b] >> 48 & 3)
        self._change(i, 32, 16, self.threads.frame[i.c] * width)

    def _dsd_advance(self, i: Instruction) -> None:
        frame = self.threads.frame
        self._change(i, 0, 16, frame[i.b] + frame[i.c] * i.imm)

    def _dsd_base(self, i: Instruction) -> None:
        """Another base; strides count elements, so another width scales the stride."""
        frame = self.threads.frame
        dsd = frame[i.b]
        if dsd >> 60 == 1:
            stride = as_signed(dsd >> 32, 16) / (2 << (dsd >> 48 & 3)) * (2 << i.imm)
            dsd = dsd & ~(0xFFFF << 32) | (int(stride) & 0xFFFF) << 32
        dsd = dsd & ~0xFFFF & ~(3 << 48)
        frame[i.a] = dsd | frame[i.c] & 0xFFFF | i.imm << 48

    def _dsd_shape(self, _i: Instruction) -> None:
        """Nothing: shapes are constants."""

    def _change(self, i: Instruction, low: int, bits: int, value: int) -> None:
        frame, mask = self.threads.frame, (1 << bits) - 1
        frame[i.a] = frame[i.b] & ~(mask << low) | (value & mask) << low

    def _load_dsr(self, i: Instruction) -> None:
        self.threads.load_dsr(self.image.sites[i.imm])

    # --- what may wait

    def _vector(self, i: Instruction) -> None:
        site = self.image.sites[i.imm]
        thread = self.threads.prepare(site)
        if not self.threads.waits_for_others(thread):
            self._spent += site.cost + self.threads.cycles_in_memory(thread, site.simd)
            self.threads.do_in_memory(thread)
        else:
            self._wait_for_own_cycle()
            thread.ready = self._now + site.cost
            self.in_operation = self.threads.start(thread) == MAIN_THREAD
            self._spent += site.cost
        if i.a and not self.in_operation:
            self.threads.frame[i.a] = 1

    def end_operation(self, thread: Thread) -> None:
        """Go on behind the operation that the main thread has waited for."""
        i = self.image.code[self.pc]
        self.in_operation = False
        if i.a:
            self.threads.frame[i.a] = int(thread.result)
        self.pc += 1

    def _wait_for_own_cycle(self) -> None:
        if self._spent:
            raise Waits

    def _map_begin(self, i: Instruction) -> None:
        site = self.image.sites[i.imm]
        if len(self.maps) == 4:
            raise Fault("STACK", self.threads.router.number)
        cursors = [
            self.threads.cursor(site, place) if place == site.op or site.steps[place] else Cursor()
            for place in range(site.op + 1)
        ]
        self.maps.append(MapState(site, cursors))

    def _map_next(self, i: Instruction) -> int | None:
        state, site = self.maps[-1], self.maps[-1].site
        walked = [c for c in state.cursors if c.has_length]
        if any(cursor.length == 0 for cursor in walked):
            self.threads.save_addresses(tuple(state.cursors))
            self.maps.pop()
            return i.imm
        inputs = state.cursors[: site.op]
        if any(cursor.kind is Kind.FABRIC_IN for cursor in inputs):
            self._wait_for_own_cycle()
        if not all(self.threads.can_give(cursor, self._now) for cursor in inputs):
            raise Waits
        index = 0
        for place, cursor in enumerate(inputs):
            if cursor.kind is Kind.NONE:
                continue
            value = self.threads.take(cursor, site.widths[place], index)
            if cursor.kind is Kind.FABRIC_IN:
                index = value >> 16
            _shorten(cursor)
            bits, signed = 8 * site.widths[place], site.is_signed[place]
            self.threads.frame[i.a + place] = extend(value, bits, signed=signed)
        return None

    def _map_put(self, i: Instruction) -> None:
        state = self.maps[-1]
        place = state.site.op
        cursor, width = state.cursors[place], state.site.widths[place]
        if cursor.kind is Kind.FABRIC_OUT:
            self._wait_for_own_cycle()
        if not self.threads.can_take(cursor):
            raise Waits
        value = self.threads.frame[i.a] & WORD
        self.threads.put(cursor, width, value, 0, self._now)
        _shorten(cursor)

    def _intrinsic(self, i: Instruction) -> None:
        if i.imm in _EXACT:
            self._wait_for_own_cycle()
        now = self._now + self._spent
        self.threads.frame[i.a] = self.services.serve(
            SERVICES[i.imm], self.threads.frame[i.b : i.b + 4], now, is_half=bool(i.c)
        )


def _shorten(cursor: Cursor) -> None:
    if cursor.has_length and cursor.length is not None:
        cursor.length -= 1


def _of_integer(value: int, bits: int, fp16: str) -> int:
    """Round an integer, once: what a double cannot hold is made odd first."""
    if abs(value) >> 53:
        drop = abs(value).bit_length() - 53
        kept = abs(value) >> drop | int(abs(value) & ((1 << drop) - 1) != 0)
        value = int(math.copysign(1, value)) * (kept << drop)
    return encode_float(float(value), bits, fp16)


def _quotient(a: int, b: int) -> int:
    if b == 0:
        raise ZeroDivisionError
    size = abs(a) // abs(b)
    return size if (a < 0) == (b < 0) else -size


def _shifted(a: int, b: int) -> int:
    return a << b if b < 64 else 0


_WRAPPING: dict[str, Callable[[int, int], int]] = {
    "ADD": lambda a, b: a + b,
    "SUB": lambda a, b: a - b,
    "MUL": lambda a, b: a * b,
    "SHL": _shifted,
}
_S = as_signed
_PLAIN: dict[str, Callable[[int, int, int], int]] = {
    "MOV": lambda a, _b, _imm: a,
    "AND": lambda a, b, _: a & b,
    "OR": lambda a, b, _: a | b,
    "XOR": lambda a, b, _: a ^ b,
    "NOT": lambda a, _b, _imm: ~a,
    "SHR_S": lambda a, b, _: _S(a) >> min(b, 63),
    "SHR_U": lambda a, b, _: a >> b if b < 64 else 0,
    "DIV_S": lambda a, b, _: _quotient(_S(a), _S(b)),
    "DIV_U": lambda a, b, _: _quotient(a, b),
    "REM_S": lambda a, b, _: _S(a) - _S(b) * _quotient(_S(a), _S(b)),
    "REM_U": lambda a, b, _: a - b * _quotient(a, b),
    "EXTEND_S": lambda a, _, bits: extend(a, bits, signed=True),
    "EXTEND_U": lambda a, _, bits: extend(a, bits, signed=False),
    "EQ": lambda a, b, _: a == b,
    "NE": lambda a, b, _: a != b,
    "LT_S": lambda a, b, _: _S(a) < _S(b),
    "LE_S": lambda a, b, _: _S(a) <= _S(b),
    "LT_U": lambda a, b, _: a < b,
    "LE_U": lambda a, b, _: a <= b,
}
_TESTS: dict[str, Callable[[int, int], bool]] = {
    "IF": lambda a, _: a != 0,
    "IF_NOT": lambda a, _: a == 0,
    "IF_EQ": lambda a, b: a == b,
    "IF_NE": lambda a, b: a != b,
    "IF_LT_S": lambda a, b: _S(a) < _S(b),
    "IF_LE_S": lambda a, b: _S(a) <= _S(b),
    "IF_LT_U": lambda a, b: a < b,
    "IF_LE_U": lambda a, b: a <= b,
}
_FLOATS = {"F32_TO_S", "F32_TO_U", "F16_TO_S", "F16_TO_U"}
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "FEQ": lambda a, b: a == b,
    "FNE": lambda a, b: a != b,
    "FLT": lambda a, b: a < b,
    "FLE": lambda a, b: a <= b,
}
_ARITHMETIC: dict[str, Callable[[float, float], float]] = {
    "FADD": lambda a, b: a + b,
    "FSUB": lambda a, b: a - b,
    "FMUL": lambda a, b: a * b,
    "FDIV": divided,
    "FREM": math.fmod,
}
