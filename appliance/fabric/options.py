"""How a program is simulated, and what has been simulated."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatorOptions:
    """How a program is simulated.

    Attributes:
        machine_code_directory: Where the kernel's machine code is kept between processes.
        slice_work: PE-cycles after which waiting comes back to Python, for Ctrl-C.
        settle_cycles: Cycles that a copy waits at most until nothing moves.
        drain_cycles: Cycles that `drain` gives to what still runs after the last command.
        reverse_tasks: Let tasks take turns by descending instead of ascending ids, to
            find programs that depend on an order that the machine does not promise.
        trace_events: Events of a trace that are kept, the latest; 0 for no trace.
        task_cycles: Cycles after which a task that computes without an end is an error.
        num_threads: Threads that simulate bands of rows while there is enough to do; results,
            cycles and what is printed do not depend on it. A trace is made by one.
        is_checked: Find accesses beyond an array inside a PE's memory. Cycles stay the same;
            the simulation is slower.
    """

    machine_code_directory: str | None = None
    slice_work: int = 2_000_000
    settle_cycles: int = 1_000_000
    drain_cycles: int = 1_000_000
    reverse_tasks: bool = False
    trace_events: int = 0
    task_cycles: int = 1_000_000_000
    num_threads: int = 1
    is_checked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """What has been simulated so far.

    Attributes:
        cycles: Clock cycles since the program started.
        pe_cycles: Cycles in which a PE did something, over all PEs.
        wavelets: Moves of a wavelet from one router, queue or host to the next.
        pes: PEs that have done anything.
    """

    cycles: int
    pe_cycles: int
    wavelets: int
    pes: int
