"""`SdkLayout`: regions, their ports, connections between them and with the host."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from appliance.csl.options import CompileOptions
from appliance.csl.program import (
    CodeClass,
    DescriptorConstant,
    DsdOperation,
    FabricInDescriptor,
    FabricOutDescriptor,
    Program,
)
from appliance.sdk.cslc import FileSources
from appliance.sdk.layout.code_regions import CodeRegion, PortHandle
from appliance.sdk.layout.csl_text import layout_text
from appliance.sdk.layout.layout_plan import HostStream, Plan
from appliance.sdk.layout.platforms import (
    FP16TYPE,
    SdkCompileArtifacts,
    SdkExecutionPlatform,
    SdkTarget,
)
from appliance.sdk.layout.ports import PORTS_FILE, InitialBlock, PortMap, StreamPlace
from appliance.sdk.layout.region_places import place_all
from appliance.sdk.symbols import HostCallError

MAIN_FILE = "sdk_layout.csl"
"""What the compiler calls the layout that is made of a plan."""


class SdkLayout:
    """A program laid out in Python.

    Args:
        platform: What it is for: a platform, or an architecture.
        msg_level: Accepted; what the compiler has to say it prints.
    """

    def __init__(
        self, platform: SdkExecutionPlatform | SdkTarget, msg_level: str = "WARNING"
    ) -> None:
        del msg_level
        if not isinstance(platform, SdkExecutionPlatform | SdkTarget):
            raise HostCallError(f"A layout is for a platform or an SdkTarget, not {platform!r}.")
        self._target = platform if isinstance(platform, SdkTarget) else platform.target
        self._regions: list[CodeRegion] = []
        self._connections: list[tuple[PortHandle, PortHandle]] = []
        self._streams: list[HostStream] = []

    def create_code_region(self, file: str, name: str, width: int, height: int) -> CodeRegion:
        """Add a rectangle of PEs that run a file."""
        if any(region.name == name for region in self._regions):
            raise HostCallError(f"There are two regions of the name {name!r}.")
        region = CodeRegion(str(file), name, width, height)
        self._regions.append(region)
        return region

    def connect(self, sender: PortHandle, receiver: PortHandle) -> None:
        """Have what leaves by an output port enter by an input port."""
        self._connections.append((sender, receiver))

    def create_input_stream(
        self, port: PortHandle, io_loc: object = None, io_buffer_size: int = 1024
    ) -> str:
        """Let the host send to an input port; the name by which it does."""
        del io_loc, io_buffer_size  # where the host's data enters the fabric is chosen here
        return self._stream(port, is_input=True)

    def create_output_stream(
        self, port: PortHandle, io_loc: object = None, io_buffer_size: int = 1024
    ) -> str:
        """Let the host receive from an output port; the name by which it does."""
        del io_loc, io_buffer_size
        return self._stream(port, is_input=False)

    def _stream(self, port: PortHandle, *, is_input: bool) -> str:
        if port.is_input is not is_input:
            way = "an output" if is_input else "an input"
            raise HostCallError(f"Port {port.name} is {way} port.")
        if any(stream.port is port for stream in self._streams):
            raise HostCallError(f"Port {port.name} has a stream already.")
        self._streams.append(HostStream(port.name, port))
        return port.name

    def hstack(self, regions: Sequence[CodeRegion], gap: int = 1) -> None:
        """Place regions side by side, the first one where it is or at (0, 0)."""
        self._stack(regions, gap, horizontal=True)

    def vstack(self, regions: Sequence[CodeRegion], gap: int = 1) -> None:
        """Place regions below each other, the first one where it is or at (0, 0)."""
        self._stack(regions, gap, horizontal=False)

    def _stack(self, regions: Sequence[CodeRegion], gap: int, *, horizontal: bool) -> None:
        if not regions:
            return
        x, y = regions[0].origin or (0, 0)
        for region in regions:
            region.place(x, y)
            x += (region.width + gap) * horizontal
            y += (region.height + gap) * (not horizontal)

    def compile(
        self,
        out_prefix: str = "out",
        libs: Sequence[str] = (),
        cslc_prefix: str = "",
        *,
        save_port_map: bool = False,
        f16_type: FP16TYPE = FP16TYPE.F16,
    ) -> SdkCompileArtifacts:
        """Compile into a directory.

        Args:
            out_prefix: The directory.
            libs: Directories in which imported files are looked for.
            cslc_prefix: Accepted; there is one compiler.
            save_port_map: Accepted; `ports.json` is always written.
            f16_type: The 16-bit float format that exists at run time.

        Raises:
            HostCallError: The layout or its code has an error.
        """
        del cslc_prefix, save_port_map
        if not self._regions:
            raise HostCallError("The layout has no region; create one with create_code_region.")
        place_all(self._regions)
        is_wse3 = self._target is SdkTarget.WSE3
        plan = Plan(self._regions, self._connections, self._streams, is_wse3=is_wse3)
        options = CompileOptions(
            architecture=self._target.value,
            import_paths=tuple(str(path) for path in libs),
            fp16_format=f16_type.value,
        )
        program, sources = self._program(plan, options)
        return self._write(Path(out_prefix), plan, program, sources)

    def _program(self, plan: Plan, options: CompileOptions) -> tuple[Program, Mapping[str, str]]:
        """Compile; once more if a port's operations take two elements of each wavelet."""
        program, sources = _compiled(plan, options)
        for stream in self._streams:
            stream.is_packed = _takes_halves(stream, plan, program)
        if any(stream.is_packed for stream in self._streams):
            program, sources = _compiled(plan, options, self._streams)
        return program, sources

    def _write(
        self, directory: Path, plan: Plan, program: Program, sources: Mapping[str, str]
    ) -> SdkCompileArtifacts:
        # Imported here, as in `cslc`: what writes is not needed to lay out.
        from appliance.sdk.container import write_container  # noqa: PLC0415

        write_container(program, directory, sources=sources)
        origin = _origin(plan)
        blocks = [
            InitialBlock(region.origin[0] + x, region.origin[1] + y, symbol, data)
            for region in self._regions
            if region.origin is not None
            for (x, y), symbol, data in region.blocks()
        ]
        streams = {
            stream.name: StreamPlace(*stream.pe, is_input=stream.port.is_input)
            for stream in self._streams
        }
        ports = PortMap(origin=origin, streams=streams, blocks=blocks)
        (directory / PORTS_FILE).write_text(json.dumps(ports.as_json()))
        return SdkCompileArtifacts(directory)


def _origin(plan: Plan) -> tuple[int, int]:
    return min(x for x, _ in plan.pes), min(y for _, y in plan.pes)


def _compiled(
    plan: Plan, options: CompileOptions, streams: Sequence[HostStream] = ()
) -> tuple[Program, Mapping[str, str]]:
    # Imported here, since a compiler takes a while to load and most layouts are made first.
    from appliance.csl.compiler import compile_program  # noqa: PLC0415

    packed = {stream.pe for stream in streams if stream.is_packed}
    for pe, found in plan.pes.items():
        if found.file.startswith("<host_port/"):
            found.params["packed_halves"] = pe in packed
    origin = _origin(plan)
    size = (
        max(x for x, _ in plan.pes) - origin[0] + 1,
        max(y for _, y in plan.pes) - origin[1] + 1,
    )
    files = FileSources()
    text = layout_text(plan, origin, size, files.read)
    result = compile_program(MAIN_FILE, options, _WithMain(files, text))
    for line in result.printed:
        print(line)  # noqa: T201 - what the program prints at compile time
    if result.program is None:
        raise HostCallError(f"The layout does not compile:\n{result.render()}")
    return result.program, {**files.texts, MAIN_FILE: text}


class _WithMain:
    """Files, and the layout that is in none."""

    def __init__(self, files: FileSources, text: str) -> None:
        self._files, self._text = files, text

    def read(self, path: str) -> str | None:
        return self._text if path == MAIN_FILE else self._files.read(path)


def _takes_halves(stream: HostStream, plan: Plan, program: Program) -> bool:
    """Whether operations of 16 bits take twice as many elements as the port has wavelets.

    The host sends and receives words of 32 bits; operations of 16 bits take both halves of each.
    """
    port, origin = stream.port, _origin(plan)
    region = port.region
    assert region.origin is not None
    x, y = region.side(port.edge)[0]
    place = (region.origin[0] + x - origin[0], region.origin[1] + y - origin[1])
    code = program.classes[program.grid.code_class(*place)]
    extents = _extents_of_halves(code, plan.number_of(port.color), port.is_input)
    return bool(extents) and all(extent == 2 * port.size for extent in extents)


def _extents_of_halves(code: CodeClass, color: int, is_input: bool) -> list[int]:
    """Return the lengths of operations of 16 bits whose fabric operand has a color."""
    queues = {(queue.output, queue.queue): queue.color for queue in code.queues}
    kind = FabricInDescriptor if is_input else FabricOutDescriptor
    found = []
    for function in code.functions:
        for block in function.blocks:
            for item in block.instructions:
                if not isinstance(item, DsdOperation) or not item.op.endswith(("16", "h")):
                    continue
                for operand in item.operands:
                    if not isinstance(operand, DescriptorConstant):
                        continue
                    dsd = operand.descriptor
                    if isinstance(dsd, kind):
                        of_queue = queues.get((not is_input, dsd.queue or 0))
                        if color in (dsd.color, of_queue):
                            found.append(dsd.extent)
    return found
