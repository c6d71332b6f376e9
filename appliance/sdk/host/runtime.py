"""The runtime that a host program drives: it loads a compiled program and runs it in the simulator.

Operations take place one after another in the order of the calls. One that does not block is begun
and goes on whenever the host waits for it or a later one, or asks whether it is done.
"""

import atexit
import logging
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from appliance.fabric.errors import FabricError
from appliance.sdk.cs_python import SYSTEM_VARIABLE
from appliance.sdk.host import inspection
from appliance.sdk.host.arrays import (
    HostArray,
    MemcpyDataType,
    MemcpyOrder,
    Words,
    check_target,
    to_device,
    to_host,
)
from appliance.sdk.host.checks import is_checked, task_cycles
from appliance.sdk.host.core_files import write_core
from appliance.sdk.host.fabric_traces import sources_of, trace_order, write_trace
from appliance.sdk.host.machine_code_directory import machine_code_directory
from appliance.sdk.host.port_transfers import PortTransfers
from appliance.sdk.host.tasks import Task, Tasks
from appliance.sdk.host.told import told_to_host
from appliance.sdk.layout.platforms import (
    DEFAULT_CORE,
    SdkExecutionPlatform,
    SimfabConfig,
    get_platform,
)
from appliance.sdk.layout.ports import PortMap
from appliance.sdk.symbols import RPC_FILE, HostCallError, HostSymbols

if TYPE_CHECKING:
    from appliance.fabric.commands import Command, Region
    from appliance.fabric.host_interface import Simulator

logger = logging.getLogger(__name__)

LOG_FILE = "sim.log"
DEFAULT_THREADS = 5
_MAX_COLOR = 23


class SdkRuntime(PortTransfers):
    """Loads and runs one compiled program.

    Args:
        bindir: Directory that `cslc` or `SdkLayout` wrote; a relative one counts from where this is
            called.
        platform: What to run on: a simulator or a system; or a system's address.
        cmaddr: Address of the system to run on; empty for none, which the simulator does without.
        suppress_simfab_trace: Accepted; the fabric is traced only where `fabric_trace` asks for it.
        simfab_numthreads: Threads that simulate a large program, at most as many as there are
            processors; 5 unless the platform says otherwise. Results do not depend on them.
        msg_level: Least level of the runtime's messages: `DEBUG`, `INFO`, `WARNING` or `ERROR`.
        memcpy_required: Whether the program must have been compiled with memcpy.
        fabric_trace: File for a trace of what happens on the fabric; empty for none. None leaves it
            to `WSC_FABRIC_TRACE` and `cslc --fabric-trace`.

    Raises:
        RuntimeError: The directory holds no program, or there is no such system.
    """

    def __init__(
        self,
        bindir: str | os.PathLike[str],
        platform: SdkExecutionPlatform | str | None = None,
        *,
        cmaddr: str | None = None,
        suppress_simfab_trace: bool = False,
        simfab_numthreads: int | None = None,
        msg_level: str = "WARNING",
        memcpy_required: bool = True,
        fabric_trace: str | os.PathLike[str] | None = None,
    ) -> None:
        del suppress_simfab_trace
        if platform is None or isinstance(platform, str):
            config = SimfabConfig(num_threads=simfab_numthreads or DEFAULT_THREADS)
            platform = get_platform(cmaddr or platform, config)
        self._config = platform.config
        threads = simfab_numthreads or platform.config.num_threads
        self._num_threads = min(threads, len(os.sched_getaffinity(0)))
        logger.setLevel(msg_level.upper())
        _check_system(platform.cmaddr)
        self._directory = Path(bindir).resolve()
        self._symbols = HostSymbols.load(self._directory / RPC_FILE)
        self._needs_memcpy = memcpy_required
        self._simulator: Simulator | None = None
        self._tasks: deque[Task] = deque()
        self._is_running = self._has_stopped = False
        self._log_path = Path(LOG_FILE)
        self._num_logged = 0
        self._doubts: set[str] = set()
        self._offsets = (0, 0)
        self._ports = PortMap.load(self._directory)
        self._trace_order = trace_order(fabric_trace, self._directory)
        self._sources: Mapping[str, Sequence[str]] = {}

    def get_id(self, symbol: str) -> int:
        """Return the number of an exported symbol."""
        return self._symbols.id_of(symbol)

    def load(self) -> None:
        """Load the program into the simulated fabric."""
        # Imported here: compiled code takes a while to load, and names are asked for without it.
        from appliance.fabric.host_interface import Simulator  # noqa: PLC0415
        from appliance.fabric.options import SimulatorOptions  # noqa: PLC0415
        from appliance.sdk.container import read_program  # noqa: PLC0415
        from appliance.sdk.host.debugger.session import attach as attach_debugger  # noqa: PLC0415

        if self._simulator is not None:
            raise HostCallError("The program is loaded already; make another SdkRuntime.")
        with told_to_host():
            program = read_program(self._directory)
            if self._needs_memcpy and not program.memcpy:
                raise HostCallError(
                    f"The program in {self._directory} was compiled without --memcpy."
                )
            self._offsets = program.offsets
            order = self._trace_order
            options = SimulatorOptions(
                machine_code_directory=machine_code_directory(),
                num_threads=self._num_threads,
                trace_events=order.events if order else 0,
                is_checked=is_checked(),
                task_cycles=task_cycles(),
            )
            self._simulator = Simulator(program, options=options)
            x, y = self._ports.origin
            for block in self._ports.blocks:
                self._simulator.write_symbol(block.x - x, block.y - y, block.symbol, block.data)
            attach_debugger(self._simulator, self._directory)
            if order:
                self._sources = sources_of(self._directory)
                atexit.register(self._write_trace)  # what fails is worth the most
        self._log_path = Path(LOG_FILE).resolve()
        self._log_path.write_text("")

    def run(self) -> None:
        """Let the loaded program run."""
        if self._simulator is None:
            raise HostCallError("There is nothing to run yet; call load() before run().")
        self._is_running = True

    def stop(self) -> None:
        """Wait for every operation, let the fabric come to rest, and end the run."""
        simulator = self._running("stop")
        with self._simulating():
            for task in self._tasks:
                task.wait()
            simulator.drain()
        self._write_trace()
        self._is_running, self._has_stopped = False, True
        if self._config.dump_core:
            self.dump_core(self._config.core_path)
        inspection.remember(self._directory, simulator, self._offsets)

    def memcpy_h2d(  # noqa: PLR0917 - the SDK's signature
        self,
        dest: int,
        src: HostArray,
        x: int,
        y: int,
        w: int,
        h: int,
        elem_per_pe: int,
        *,
        streaming: bool,
        data_type: MemcpyDataType,
        order: MemcpyOrder,
        nonblock: bool,
    ) -> Task:
        """Copy to a symbol, or stream to a color, on each PE of a rectangle."""
        order = MemcpyOrder(order)
        with told_to_host():
            data = to_device(np.asarray(src), order, w=w, h=h, l=elem_per_pe)
        return self._send(
            dest,
            data,
            (x, y, w, h),
            streaming=streaming,
            data_type=data_type,
            nonblock=nonblock,
        )

    def memcpy_h2d_rowbcast(  # noqa: PLR0917 - the SDK's signature
        self,
        dest: int,
        src: HostArray,
        x: int,
        y: int,
        w: int,
        h: int,
        elem_per_pe: int,
        *,
        streaming: bool,
        data_type: MemcpyDataType,
        order: MemcpyOrder,
        nonblock: bool,
    ) -> Task:
        """Copy the same to every PE of a row; the array has elements for one column."""
        order = MemcpyOrder(order)
        with told_to_host():
            data = to_device(np.asarray(src), order, w=1, h=h, l=elem_per_pe)
        return self._send(
            dest,
            data,
            (x, y, w, h),
            streaming=streaming,
            data_type=data_type,
            nonblock=nonblock,
        )

    def memcpy_h2d_colbcast(  # noqa: PLR0917 - the SDK's signature
        self,
        dest: int,
        src: HostArray,
        x: int,
        y: int,
        w: int,
        h: int,
        elem_per_pe: int,
        *,
        streaming: bool,
        data_type: MemcpyDataType,
        order: MemcpyOrder,
        nonblock: bool,
    ) -> Task:
        """Copy the same to every PE of a column; the array has elements for one row."""
        order = MemcpyOrder(order)
        with told_to_host():
            data = to_device(np.asarray(src), order, w=w, h=1, l=elem_per_pe)
        return self._send(
            dest,
            data,
            (x, y, w, h),
            streaming=streaming,
            data_type=data_type,
            nonblock=nonblock,
        )

    def memcpy_h2d_stride(  # noqa: PLR0917 - the SDK's signature
        self,
        dest: int,
        src: HostArray,
        x: int,
        y: int,
        w: int,
        h: int,
        elem_per_pe: int,
        row_stride: int,
        col_stride: int,
        *,
        streaming: bool,
        data_type: MemcpyDataType,
        order: MemcpyOrder,
        nonblock: bool,
    ) -> Task:
        """Copy to every `row_stride`-th PE of every `col_stride`-th row of a rectangle."""
        if row_stride < 1 or col_stride < 1:
            raise HostCallError(
                f"The strides are {row_stride} and {col_stride}; they are from 1 on."
            )
        columns, rows = -(-w // row_stride), -(-h // col_stride)
        order = MemcpyOrder(order)
        with told_to_host():
            data = to_device(np.asarray(src), order, w=columns, h=rows, l=elem_per_pe)
        tasks = [
            self._send(
                dest,
                data[row : row + 1, column : column + 1],
                (x + column * row_stride, y + row * col_stride, 1, 1),
                streaming=streaming,
                data_type=data_type,
                nonblock=True,
            )
            for row in range(rows)
            for column in range(columns)
        ]
        last = Tasks(tasks)
        if not nonblock:
            self.task_wait(last)
        return last

    def memcpy_d2h(  # noqa: PLR0917 - the SDK's signature
        self,
        dest: HostArray,
        src: int,
        x: int,
        y: int,
        w: int,
        h: int,
        elem_per_pe: int,
        *,
        streaming: bool,
        data_type: MemcpyDataType,
        order: MemcpyOrder,
        nonblock: bool,
    ) -> Task:
        """Copy from a symbol, or take what is streamed on a color, on each PE of a rectangle."""
        from appliance.fabric import commands  # noqa: PLC0415 - as in `load`

        order, data_type = MemcpyOrder(order), MemcpyDataType(data_type)
        region = self._region((x, y, w, h), elem_per_pe)
        with told_to_host():
            check_target(dest, w * h * elem_per_pe)
        command: Command
        if streaming:
            command = commands.StreamOut(_color(src), region, elem_per_pe)
        else:
            name = self._symbols.variable(src, is_written=False)
            command = commands.CopyOut(name, region, elem_per_pe, data_type.num_bits)
        deliver = partial(to_host, target=dest, order=order)
        return self._begin("memcpy_d2h", command, nonblock, deliver)

    def launch(self, name: str, *args: object, nonblock: bool) -> Task:
        """Call an exported function on every PE with arguments of its types."""
        words = self._symbols.function(name).words(args)
        return self._call(name, words, nonblock)

    def call(self, name: str, params: Sequence[int], *, nonblock: bool) -> Task:
        """Call an exported function on every PE with one 32-bit word for each argument."""
        function = self._symbols.function(name)
        if len(params) != len(function.parameters):
            raise HostCallError(
                f"{name} takes {len(function.parameters)} argument(s); {len(params)} given."
            )
        return self._call(name, tuple(int(word) & 0xFFFFFFFF for word in params), nonblock)

    def is_task_done(self, task: Task) -> bool:
        """Whether an operation has ended."""
        with self._simulating():
            return task.done()

    def task_wait(self, task: Task) -> None:
        """Let simulated time pass until an operation has ended."""
        with self._simulating():
            task.wait()

    def coord_logical_to_physical(self, coordinates: tuple[int, int]) -> tuple[int, int]:
        """Return the fabric coordinates of a PE of the program."""
        return coordinates[0] + self._offsets[0], coordinates[1] + self._offsets[1]

    def read_symbol(self, x: int, y: int, symbol: str, dtype: str = "uint8") -> HostArray:
        """Return the content of a symbol, exported or not, on one PE of the program."""
        if self._simulator is None:
            raise HostCallError("There is nothing to read yet; call load() first.")
        left, top = self._ports.origin
        with told_to_host():
            data = self._simulator.read_symbol(x - left, y - top, symbol)
            return np.frombuffer(data, dtype).copy()

    def dump_core(self, path: str | os.PathLike[str] = DEFAULT_CORE) -> None:
        """Write the memory of all PEs to a file; see `core_files`."""
        if self._simulator is None:
            raise HostCallError("There is nothing to dump yet; call load() first.")
        with told_to_host():
            write_core(Path(path), self._simulator, self._ports.origin)

    def dump_elf_core(self, path: str | os.PathLike[str] = DEFAULT_CORE) -> None:
        """Do the same: there is one kind of core files."""
        self.dump_core(path)

    def _send(
        self,
        dest: int,
        data_hwl: Words,
        rectangle: tuple[int, int, int, int],
        *,
        streaming: bool,
        data_type: MemcpyDataType,
        nonblock: bool,
    ) -> Task:
        from appliance.fabric import commands  # noqa: PLC0415 - as in `load`

        region = self._region(rectangle, data_hwl.shape[2])
        command: Command
        if streaming:
            command = commands.StreamIn(_color(dest), region, data_hwl)
        else:
            name = self._symbols.variable(dest, is_written=True)
            bits = MemcpyDataType(data_type).num_bits
            command = commands.CopyIn(name, region, data_hwl, bits)
        return self._begin("memcpy_h2d", command, nonblock, None)

    def _call(self, name: str, words: tuple[int, ...], nonblock: bool) -> Task:
        from appliance.fabric.commands import Launch  # noqa: PLC0415 - as in `load`

        return self._begin(name, Launch(name, words), nonblock, None)

    def _region(self, rectangle: tuple[int, int, int, int], elem_per_pe: int) -> "Region":
        from appliance.fabric.commands import Region  # noqa: PLC0415 - as in `load`

        x, y, w, h = (int(number) for number in rectangle)
        if elem_per_pe < 1 or w < 1 or h < 1 or x < 0 or y < 0:
            raise HostCallError(
                f"A copy of {elem_per_pe} element(s) for each PE of {w} x {h} at ({x}, {y}) is "
                "not possible."
            )
        return Region(x, y, w, h)

    def _begin(
        self,
        what: str,
        command: "Command",
        nonblock: bool,
        deliver: Callable[[Words], None] | None,
    ) -> Task:
        simulator = self._running(what)
        with told_to_host():
            task = Task(simulator, simulator.submit(command), deliver)
        if nonblock:
            self._tasks.append(task)
        else:
            self.task_wait(task)
        return task

    def _running(self, what: str) -> "Simulator":
        if self._simulator is None or not self._is_running:
            state = "has stopped" if self._has_stopped else "does not run yet (load(), run())"
            raise HostCallError(f"{what} needs a running program; this one {state}.")
        return self._simulator

    @contextmanager
    def _simulating(self) -> Iterator[None]:
        """Let time pass, then log what was printed, and bring what has ended to the host.

        A run that has failed leaves its trace, since nothing comes after it.
        """
        with told_to_host():
            try:
                yield
            except FabricError:
                self._write_trace()
                raise
            finally:
                self._log()
            while self._tasks and self._tasks[0].has_ended:
                self._tasks.popleft().wait()

    def _write_trace(self) -> None:
        """Write the trace that was asked for, once: at `stop`, or when the process ends."""
        order, self._trace_order = self._trace_order, None
        if order is None:
            return
        atexit.unregister(self._write_trace)
        assert self._simulator is not None
        trace = self._simulator.trace(sources=self._sources)
        assert trace is not None
        write_trace(trace, order.path)

    def _log(self) -> None:
        """Append what the program has printed since the last time."""
        assert self._simulator is not None
        for doubt in self._simulator.doubts():
            if doubt not in self._doubts:
                self._doubts.add(doubt)
                logger.warning("%s", doubt)
        lines = self._simulator.console()
        if len(lines) > self._num_logged:
            with self._log_path.open("a") as file:
                file.writelines(f"{line}\n" for line in lines[self._num_logged :])
            self._num_logged = len(lines)


def _color(number: int) -> int:
    if not 0 <= number <= _MAX_COLOR:
        raise HostCallError(f"{number} is no color; a stream takes one of 0 to {_MAX_COLOR}.")
    return int(number)


def _check_system(address: str) -> None:
    held = os.environ.get(SYSTEM_VARIABLE, "")
    if address and address != held:
        raise HostCallError(
            f"There is no system at {address!r}: "
            + (f"this job holds {held}." if held else "leave cmaddr empty to simulate one.")
        )
