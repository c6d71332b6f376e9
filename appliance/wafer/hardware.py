"""What a wafer-scale system is made of: one table for each machine, every number with its source.

A `Machine` holds only what the hardware is. What its software costs (dispatch, kernel switches) is
not published and lives in `calibration`. Times are derived from clock cycles and `clock_hertz`.

Sources named below:
    SDK: Cerebras SDK documentation and its examples (fabric sizes, SIMD table, queues, colors).
    HC34: S. Lie, Hot Chips 34 (2022), Cerebras Architecture Deep Dive.
    MICRO: IEEE Micro 43(3), 2023, weight streaming paper (second-hand: I/O, MemoryX, traffic).
    STENCIL: Jacquelin, Araya-Polo, Meng, 2022, arXiv 2204.03775.
    REDUCE: Luczynski et al., HPDC 2024, arXiv 2404.15888.
    PRESS: vendor announcements of WSE-3 and CS-3 (2024).
"""

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum

from appliance.core.errors import UserError
from appliance.wafer.instruction_costs import operations_per_cycle


class VectorOp(StrEnum):
    """Classes of vector instructions that differ in their SIMD width."""

    FMAC = "fmac"
    MUL = "mul"
    ADD = "add"
    MOVE = "move"
    MAX = "max"


@dataclass(frozen=True, slots=True, kw_only=True)
class SimdWidths:
    """Elements per clock cycle of one class of instruction, for both operand widths.

    Attributes:
        half: 16-bit operands.
        single: 32-bit operands.
    """

    half: int
    single: int


_BUILTINS = {
    VectorOp.FMAC: ("fmach", "fmacs"),
    VectorOp.MUL: ("fmulh", "fmuls"),
    VectorOp.ADD: ("faddh", "fadds"),
    VectorOp.MOVE: ("fmovh", "fmovs"),
    VectorOp.MAX: ("fmaxh", "fmaxs"),
}
"""The DSD operations of each class, on 16-bit and on 32-bit operands."""


def _simd_of(architecture: str) -> dict[VectorOp, SimdWidths]:
    return {
        op: SimdWidths(
            half=operations_per_cycle(half, architecture),
            single=operations_per_cycle(single, architecture),
        )
        for op, (half, single) in _BUILTINS.items()
    }


_WSE2_SIMD = _simd_of("wse2")
_WSE3_SIMD = _simd_of("wse3")


WAFERS = ("WSE-2", "WSE-3")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One wafer-scale system and its share of the cluster around it.

    Attributes:
        name: For people and reports.
        wafer: `WSE-2` or `WSE-3`: whose software costs hold (`timing.calibration`).
        num_pes: PEs the vendor counts (PRESS, HC34); peak figures use this number.
        grid_width: Columns a program may use; features of a tensor lie along this axis.
        grid_height: Rows a program may use; tokens of a batch lie along this axis.
        clock_hertz: Clock of the wafer.
        sram_bytes_per_pe: Memory of one PE.
        simd: Elements per clock cycle by instruction class.
        link_bits: Bits that one link carries per clock cycle and direction.
        ramp_cycles: Clock cycles between a PE and its router, one way (T_R).
        num_colors: Routable colors.
        partial_sum_bits: Width in which kernels send partial sums along a row.
        vector_start_cycles: Start-up of one vector instruction whose descriptors are loaded.
        vector_setup_cycles: The same with the descriptors loaded in the loop.
        vector_issue_cycles: From one vector instruction whose descriptors are loaded to the next.
        descriptor_load_cycles: Loading one descriptor for an operation that the task waits for.
        thread_issue_cycles: The same as vector_issue_cycles, of an operation of a microthread.
        thread_descriptor_cycles: Loading one descriptor for an operation of a microthread.
        task_start_cycles: From the end of one task to the first instruction of the next, which
            a wavelet or the host starts.
        local_task_start_cycles: The same of a local task.
        clock_read_cycles: Reading the clock, three words, and storing them.
        io_bytes_per_second: External bandwidth of one system in each direction.
        memoryx_bytes_per_second: Memory bandwidth of the whole parameter store.
        swarmx_fan_in: Children of one node of the broadcast-reduce tree.
        swarmx_hop_seconds: Latency of one level of that tree.
        power_watts: Electrical power of one system at work.
        node_speed: Speed of the cluster's CPU servers, 1 for those of the CS-2 cluster.
    """

    name: str
    wafer: str
    num_pes: int
    grid_width: int
    grid_height: int
    clock_hertz: float
    sram_bytes_per_pe: int = 48 * 1024
    """SDK; HC34: eight banks of 6 kB."""
    simd: Mapping[VectorOp, SimdWidths]
    link_bits: int = 32
    """STENCIL and SDK: five full-duplex ports of 32 bits per cycle."""
    ramp_cycles: int = 2
    """REDUCE, confirmed against nine cycle counts of the official simulator."""
    num_colors: int = 24
    """SDK: colors 0 to 23."""
    partial_sum_bits: int
    """Not published; inferred from the throughput logs (docs/wafer-timing.md)."""
    vector_start_cycles: int = 6
    """Official simulator: a float32 vector operation of 5,124 elements takes 5,130 cycles."""
    vector_setup_cycles: int = 34
    """Official simulator: 5,158 cycles with descriptor loads inside."""
    vector_issue_cycles: int = 1
    """Not published; like the five below, fitted to whole programs (docs/decisions/0236)."""
    descriptor_load_cycles: int = 4
    thread_issue_cycles: int = 1
    thread_descriptor_cycles: int = 6
    task_start_cycles: int = 12
    local_task_start_cycles: int
    clock_read_cycles: int = 5
    io_bytes_per_second: float = 150e9
    """MICRO and the ALCF tutorial: 12 x 100 GbE = 1.2 Tb/s."""
    memoryx_bytes_per_second: float = 4e12
    """Cerebras glossary: "model memory has a bandwidth of 4 TB/s"."""
    swarmx_fan_in: int = 4
    """Assumption: eight 100 GbE ports down, as many up."""
    swarmx_hop_seconds: float = 5e-6
    """Assumption: RoCE switch and CPU-less reduction node, a few microseconds."""
    power_watts: float = 23e3
    """STENCIL measured 22.8 kW; the data sheet says 23 kW peak."""
    node_speed: float = 1.0
    """Relative, from the ALCF's logs of one ESM-2 training on both of its clusters; see `CS3`."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, int | float) and not value > 0:
                raise UserError(
                    f"Machine {self.name!r}: {field.name} is {value}, it must be above 0.",
                    hint="Correct the machine table.",
                )
        if self.wafer not in WAFERS:
            raise UserError(
                f"Machine {self.name!r}: wafer is {self.wafer!r}, not one of {', '.join(WAFERS)}.",
                hint="Leave it out: it is that of the base.",
            )
        if self.grid_width * self.grid_height > self.num_pes:
            raise UserError(
                f"Machine {self.name!r}: a grid of {self.grid_width} x {self.grid_height} needs "
                f"{self.grid_width * self.grid_height} PEs, the wafer has {self.num_pes}.",
                hint="Make the grid smaller or num_pes larger.",
            )
        if self.swarmx_fan_in < 2:
            raise UserError(
                f"Machine {self.name!r}: swarmx_fan_in is {self.swarmx_fan_in}, below 2."
            )
        missing = [op.value for op in VectorOp if op not in self.simd]
        if missing:
            raise UserError(f"Machine {self.name!r}: simd lacks {', '.join(missing)}.")

    @property
    def num_grid_pes(self) -> int:
        """PEs that a program can use."""
        return self.grid_width * self.grid_height

    @property
    def sram_bytes(self) -> int:
        """Memory of the PEs that a program can use."""
        return self.num_grid_pes * self.sram_bytes_per_pe

    @property
    def dense_flops(self) -> float:
        """Peak of dense 16-bit multiply-adds over the PEs that a program can use, per second."""
        return self.num_grid_pes * self.simd[VectorOp.FMAC].half * 2 * self.clock_hertz

    def width(self, op: VectorOp, bits: int) -> int:
        """Return the elements per clock cycle of an instruction on 16- or 32-bit operands."""
        widths = self.simd[op]
        return widths.half if bits <= 16 else widths.single

    def seconds(self, clock_cycles: float) -> float:
        """Convert clock cycles of the wafer to seconds."""
        return clock_cycles / self.clock_hertz


CS2 = Machine(
    name="CS-2",
    wafer="WSE-2",
    num_pes=850_000,
    grid_width=750,
    grid_height=994,
    clock_hertz=850e6,
    simd=_WSE2_SIMD,
    partial_sum_bits=32,
    local_task_start_cycles=1,
)
"""WSE-2. Grid: SDK examples (fabric 757 x 996, kernel 750 x 994). Clock: SDK examples, 0.85 GHz."""

CS3 = Machine(
    name="CS-3",
    wafer="WSE-3",
    num_pes=900_000,
    grid_width=755,
    grid_height=1170,
    clock_hertz=750e6,
    simd=_WSE3_SIMD,
    partial_sum_bits=16,
    local_task_start_cycles=4,
    node_speed=1.5,
)
"""WSE-3. Grid: SDK fabric 762 x 1172 less the same border as on WSE-2. Clock: a public notebook
measured 1,037,474 device cycles in 1,382.9 us (2026-09); 125 PFLOPS sparse, ten times dense, would
be 868 MHz. Hosts: the same job takes 33.6 s against 28.1 s to load, 16.6 s against
8.8 s for a checkpoint (ALCF, ESM-2 35M, 2024-08 and 2025-10); 1.5 is the mean of both ratios."""

MACHINES: Mapping[str, Machine] = {machine.name: machine for machine in (CS2, CS3)}


def find_machine(name: str) -> Machine:
    """Return a machine by name, in any case and with or without its hyphen.

    Raises:
        UserError: There is no such machine.
    """
    wanted = name.upper().replace("-", "").replace("WSE", "CS")
    for machine in MACHINES.values():
        if machine.name.replace("-", "") == wanted:
            return machine
    raise UserError(
        f"Machine {name!r} is not known; there are {', '.join(MACHINES)}.",
        hint="Name one of these, or describe your own with base and the numbers that differ.",
    )


def parse_machine(text: str) -> Machine:
    """Return the machine of a name, or of a description as JSON; how a pod is told its machine.

    Raises:
        UserError: There is no such machine, or the description is not sound.
    """
    if not text.startswith("{"):
        return find_machine(text)
    try:
        description = json.loads(text)
    except ValueError as error:
        raise UserError(f"The machine table is no JSON: {error}.") from error
    return machine_from_mapping(description)


def machine_from_mapping(description: Mapping[str, object]) -> Machine:
    """Build a user-defined machine: a base and the fields that differ from it.

    Args:
        description: As read from YAML: `base` (default CS-2), `name`, and any field of `Machine`;
            `simd` is a mapping such as `{fmac: {half: 8, single: 2}}`.

    Raises:
        UserError: A field is unknown, has the wrong type or an impossible value.
    """
    base = find_machine(str(description.get("base", CS2.name)))
    known = {field.name for field in fields(Machine)}
    changes: dict[str, object] = {}
    for key, value in description.items():
        if key == "base":
            continue
        if key not in known:
            raise UserError(f"Machine field {key!r} is not known.", hint=f"Use {sorted(known)}.")
        changes[key] = _simd_from(base, value) if key == "simd" else _number_like(key, value, base)
    return replace(base, **changes)  # type: ignore[arg-type]  # checked field by field above


def _number_like(key: str, value: object, base: Machine) -> object:
    template = getattr(base, key)
    if isinstance(template, float) and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(template, float) and isinstance(value, str):
        # YAML 1.1 reads 437.5e6, without a sign in the exponent, as text.
        with contextlib.suppress(ValueError):
            return float(value)
    if not isinstance(value, type(template)) or isinstance(value, bool):
        raise UserError(
            f"Machine field {key!r} is {value!r}; a {type(template).__name__} is needed."
        )
    return value


def _simd_from(base: Machine, value: object) -> Mapping[VectorOp, SimdWidths]:
    if not isinstance(value, Mapping):
        raise UserError(f"Machine field 'simd' is {value!r}; a mapping is needed.")
    table = dict(base.simd)
    for key, widths in value.items():
        if key not in list(VectorOp) or not isinstance(widths, Mapping):
            raise UserError(f"SIMD entry {key!r}: {widths!r} is not understood.")
        half, single = widths.get("half"), widths.get("single")
        if not (isinstance(half, int) and isinstance(single, int) and half > 0 and single > 0):
            raise UserError(f"SIMD entry {key!r} needs whole numbers half and single above 0.")
        table[VectorOp(key)] = SimdWidths(half=half, single=single)
    return table
